package builder

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// charsetPair is a character set with a collation; either may be empty for
// "not said".
type charsetPair struct{ charset, collation string }

// withCharset merges one more CHARACTER SET into what was said so far.
func (p charsetPair) withCharset(name string) (charsetPair, error) {
	info, err := charset.GetCharsetInfo(name)
	if err != nil {
		return p, err
	}
	if p.charset != "" && p.charset != info.Name {
		return p, dbterror.ErrConflictingDeclarations.FastGenByArgs(p.charset, info.Name)
	}
	p.charset = info.Name
	return p, nil
}

// withCollation merges one more COLLATE into what was said so far.
func (p charsetPair) withCollation(name string) (charsetPair, error) {
	info, err := collate.GetCollationByName(name)
	if err != nil {
		return p, err
	}
	if p.charset != "" && p.charset != info.CharsetName {
		return p, dbterror.ErrCollationCharsetMismatch.FastGenByArgs(info.Name, p.charset)
	}
	return charsetPair{info.CharsetName, info.Name}, nil
}

// resolve returns the first pair that says anything, completed; the server's
// default if none does.
func resolve(pairs ...charsetPair) (charsetPair, error) {
	for _, p := range pairs {
		switch {
		case p.collation != "":
			return charsetPair{}.withCollation(p.collation)
		case p.charset != "":
			coll, err := charset.GetDefaultCollation(p.charset)
			if err != nil {
				return p, err
			}
			return charsetPair{}.withCollation(coll)
		}
	}
	cs, coll := charset.GetDefaultCharsetAndCollate()
	return charsetPair{cs, coll}, nil
}

func tableCharset(options []*ast.TableOption) (charsetPair, error) {
	var p charsetPair
	var err error
	for _, opt := range options {
		switch opt.Tp {
		case ast.TableOptionCharset:
			p, err = p.withCharset(opt.StrValue)
		case ast.TableOptionCollate:
			p, err = p.withCollation(opt.StrValue)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// DatabaseCharset returns the charset and collation that the options of CREATE
// or ALTER DATABASE give. said is false if they say nothing of it; then the
// server's default is returned.
func DatabaseCharset(options []*ast.DatabaseOption) (cs, coll string, said bool, err error) {
	var p charsetPair
	for _, opt := range options {
		switch opt.Tp {
		case ast.DatabaseOptionCharset:
			p, err = p.withCharset(opt.Value)
		case ast.DatabaseOptionCollate:
			p, err = p.withCollation(opt.Value)
		default:
			err = Unsupported("this database option")
		}
		if err != nil {
			return "", "", false, err
		}
	}
	said = p != charsetPair{}
	p, err = resolve(p)
	return p.charset, p.collation, said, err
}

// columnCharset returns the charset of a string column. BINARY as an attribute
// (not as a type) chooses the charset's _bin collation.
func columnCharset(def *ast.ColumnDef, table charsetPair) (charsetPair, error) {
	own := charsetPair{def.Tp.GetCharset(), def.Tp.GetCollate()}
	explicit := own.charset != "" && own.collation != ""
	for _, opt := range def.Options {
		if opt.Tp != ast.ColumnOptionCollate {
			continue
		}
		var err error
		if own, err = own.withCollation(opt.StrValue); err != nil {
			return own, err
		}
		explicit = own.charset != ""
	}
	p, err := resolve(own, table)
	if err != nil {
		return p, err
	}
	if !explicit && types.IsString(def.Tp.GetType()) && mysql.HasBinaryFlag(def.Tp.GetFlag()) && p.charset != charset.CharsetBin {
		return p.withCollation(binCollation(p.charset))
	}
	return p, nil
}

// binCollation names the collation of a charset that compares code points.
func binCollation(cs string) string { return cs + "_bin" }
