package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"slices"
)

// hashLen is the number of hexadecimal digits that the register keeps of a hash.
const hashLen = 12

// hashes returns the hash of each declaration at the top level of a Go file: functions by
// name, methods as Type.Method, types, constants and variables by name.
func hashes(file string, src []byte) (map[string]string, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	out := make(map[string]string)
	add := func(name string, node ast.Node) {
		out[name] = hash(src[fset.Position(node.Pos()).Offset:fset.Position(node.End()).Offset])
	}
	for _, decl := range parsed.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			add(funcName(d), d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s)
				case *ast.ValueSpec:
					var node ast.Node = s
					if d.Tok == token.CONST && counted(d) {
						node = d // the value depends on the place in the group
					}
					for _, name := range s.Names {
						add(name.Name, node)
					}
				}
			}
		}
	}
	return out, nil
}

// hash is of the tokens, so that comments and formatting do not count.
func hash(src []byte) string {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", fset.Base(), len(src)), src, nil, 0)
	sum := sha256.New()
	for {
		_, tok, literal := s.Scan()
		if tok == token.EOF {
			return hex.EncodeToString(sum.Sum(nil))[:hashLen]
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the end of a line
		}
		_, _ = io.WriteString(sum, tok.String()+" "+literal+"\n") // a hash takes everything
	}
}

// counted says that constants of a group count by iota, or repeat the value before.
func counted(d *ast.GenDecl) bool {
	return slices.ContainsFunc(d.Specs, func(spec ast.Spec) bool {
		s := spec.(*ast.ValueSpec)
		counts := len(s.Values) == 0
		for _, value := range s.Values {
			ast.Inspect(value, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				counts = counts || ok && id.Name == "iota"
				return true
			})
		}
		return counts
	})
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}
