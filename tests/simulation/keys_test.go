package simulation

import "fmt"

// The one table has the columns h, the clustered primary key, a, which may be NULL, b
// and c. It is small, so that everything meets.
const (
	handles = 4
	// valuesA and valuesB are the numbers of values of a and b; 0 stands for NULL.
	valuesA = 4
	valuesB = 3
)

// kind is what an index is over.
type kind uint8

const (
	uniqueA kind = iota
	plainA
	plainB
)

const (
	maxIndexes = 9
	// indexStride is the number of keys of an index: those of unique values first, then
	// those with a handle.
	indexStride = valuesA + valuesA*handles
	maxKeys     = handles + maxIndexes*indexStride
)

// rowKey returns the key of the row with a handle.
func rowKey(h int) key { return key(h) }

// indexKeys returns the range of an index.
func indexKeys(index int) (from, to key) {
	from = key(handles + index*indexStride)
	return from, from + indexStride
}

// row is a row's values; the zero value is no row.
type row struct {
	exists  bool
	a, b, c int8
}

// encode makes the value of a row's key of it.
func (r row) encode() int16 {
	if !r.exists {
		return 0
	}
	return 1 + (int16(r.a)*valuesB+int16(r.b))*2 + int16(r.c)
}

func decodeRow(v int16) row {
	if v == 0 {
		return row{}
	}
	v--
	return row{exists: true, c: int8(v % 2), b: int8(v / 2 % valuesB), a: int8(v / 2 / valuesB)}
}

func (r row) String() string {
	if !r.exists {
		return "none"
	}
	a := fmt.Sprint(r.a)
	if r.a == 0 {
		a = "NULL"
	}
	return fmt.Sprintf("(a=%s, b=%d, c=%d)", a, r.b, r.c)
}

// entry is a key of an index and its value.
type entry struct {
	key   key
	value int16
	// distinct says that rows may share the key: its uniqueness is checked.
	distinct bool
}

// entryOf returns the entry that a row gives an index.
func (w *world) entryOf(index, h int, r row) entry {
	from, _ := indexKeys(index)
	value := r.a
	switch w.indexes[index].kind {
	case plainB:
		value = r.b
	case uniqueA:
		if value != 0 {
			return entry{key: from + key(value), value: int16(h) + 1, distinct: true}
		}
	}
	return entry{key: from + valuesA + key(int(value)*handles+h), value: 1}
}

// ownerOf returns the handle that the entry at a key names.
func ownerOf(k key, value int16) int {
	offset := (int(k) - handles) % indexStride
	if offset < valuesA {
		return int(value) - 1
	}
	return (offset - valuesA) % handles
}

// indexOf returns the index that a key belongs to.
func indexOf(k key) int { return (int(k) - handles) / indexStride }

// describe names a key.
func describe(k key) string {
	if k < handles {
		return fmt.Sprintf("row %d", k)
	}
	offset := (int(k) - handles) % indexStride
	if offset < valuesA {
		return fmt.Sprintf("index %d: %d", indexOf(k), offset)
	}
	offset -= valuesA
	return fmt.Sprintf("index %d: %d of row %d", indexOf(k), offset/handles, offset%handles)
}
