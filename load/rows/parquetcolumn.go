package rows

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/xitongsys/parquet-go/layout"
	"github.com/xitongsys/parquet-go/parquet"
	"github.com/xitongsys/parquet-go/schema"
)

const (
	// windowBytes is what a column reads of its file at a time at least.
	windowBytes = 256 << 10
	// pageBytes bounds a page, uncompressed.
	pageBytes = 1 << 30
	// headerBytes is where reading a page's header begins; headers with statistics can be longer.
	headerBytes = 1 << 10
	// slackBytes are what some writers leave out of the size of a column.
	slackBytes = 100
)

// parquetColumn reads the values of one column of a row group, page by page. Unlike the library's readers it
// reports what it cannot read.
type parquetColumn struct {
	section *section
	schema  *schema.SchemaHandler
	meta    *parquet.ColumnMetaData
	convert func(v any, d *types.Datum) error
	// optional reports that values may be NULL.
	optional bool

	// at is the offset of the next page, end that behind the last one.
	at, end  int64
	window   []byte
	windowAt int64

	left       int64 // values in pages to come
	dictionary *layout.Page
	values     []any // of the current page
	used       int
}

func newParquetColumn(s *section, h *schema.SchemaHandler, element *parquet.SchemaElement, meta *parquet.ColumnMetaData) (*parquetColumn, error) {
	convert, err := converter(element)
	if err != nil {
		return nil, err
	}
	c := &parquetColumn{section: s, schema: h, meta: meta, convert: convert, optional: element.GetRepetitionType() == parquet.FieldRepetitionType_OPTIONAL, at: meta.DataPageOffset, left: meta.NumValues}
	if d := meta.DictionaryPageOffset; d != nil && *d > 0 {
		c.at = min(c.at, *d)
	}
	c.end = min(c.at+meta.TotalCompressedSize+slackBytes, s.size)
	if c.at < 0 || c.at > c.end || meta.TotalCompressedSize < 0 {
		return nil, fmt.Errorf("pages at offset %d, of %d bytes: %w", c.at, meta.TotalCompressedSize, errCorrupt)
	}
	return c, nil
}

// next sets d to the next value.
func (c *parquetColumn) next(d *types.Datum) error {
	for c.used == len(c.values) {
		if c.left <= 0 {
			return fmt.Errorf("fewer values than rows: %w", errCorrupt)
		}
		if err := c.page(); err != nil {
			return err
		}
	}
	v := c.values[c.used]
	c.used++
	if v == nil {
		d.SetNull()
		return nil
	}
	return c.convert(v, d)
}

// page reads the next page.
func (c *parquetColumn) page() error {
	header, n, err := c.header()
	if err != nil {
		return fmt.Errorf("page at offset %d: %w", c.at, err)
	}
	raw, err := c.bytes(n + int64(header.CompressedPageSize))
	if err != nil {
		return fmt.Errorf("page at offset %d: %w", c.at, err)
	}
	if header.Crc != nil && crc32.ChecksumIEEE(raw[n:]) != uint32(*header.Crc) {
		return fmt.Errorf("page at offset %d has another checksum than its header says: %w", c.at, errCorrupt)
	}
	if err := c.checkPage(header, raw[n:], valuesOf(header)); err != nil {
		return fmt.Errorf("page at offset %d: %w", c.at, err)
	}
	page, values, _, err := layout.ReadPage(transport(bytes.NewReader(raw)), c.schema, c.meta)
	if err != nil {
		return fmt.Errorf("page at offset %d: %w", c.at, err)
	}
	c.at += n + int64(header.CompressedPageSize)
	if header.Type == parquet.PageType_DICTIONARY_PAGE {
		c.dictionary = page
		return nil
	}
	page.Decode(c.dictionary)
	c.values, c.used = page.DataTable.Values, 0
	c.left -= values
	return nil
}

// header returns the header of the page at c.at, checked, and its length.
func (c *parquetColumn) header() (*parquet.PageHeader, int64, error) {
	for want := int64(headerBytes); ; want *= 8 {
		b, err := c.bytes(min(want, c.end-c.at))
		if err != nil {
			return nil, 0, err
		}
		r := bytes.NewReader(b)
		t := transport(r)
		header, err := layout.ReadPageHeader(t)
		if err != nil {
			if int64(len(b)) < c.end-c.at && want < pageBytes {
				continue
			}
			return nil, 0, fmt.Errorf("its header cannot be read (%v): %w", err, errCorrupt)
		}
		n := int64(len(b) - r.Len() - t.Reader.Buffered())
		return header, n, c.check(header, n)
	}
}

// check refuses a header whose numbers would make the library take memory for values that are not there.
func (c *parquetColumn) check(h *parquet.PageHeader, n int64) error {
	size, count, limit := int64(h.CompressedPageSize), int64(0), c.left
	switch {
	case h.Type == parquet.PageType_DATA_PAGE && h.DataPageHeader != nil:
		count = int64(h.DataPageHeader.NumValues)
	case h.Type == parquet.PageType_DATA_PAGE_V2 && h.DataPageHeaderV2 != nil:
		count = int64(h.DataPageHeaderV2.NumValues)
		levels := int64(h.DataPageHeaderV2.DefinitionLevelsByteLength) + int64(h.DataPageHeaderV2.RepetitionLevelsByteLength)
		if h.DataPageHeaderV2.DefinitionLevelsByteLength < 0 || h.DataPageHeaderV2.RepetitionLevelsByteLength < 0 || levels > size {
			return fmt.Errorf("levels of %d bytes in a page of %d: %w", levels, size, errCorrupt)
		}
	case h.Type == parquet.PageType_DICTIONARY_PAGE && h.DictionaryPageHeader != nil:
		count, limit = int64(h.DictionaryPageHeader.NumValues), 8*int64(h.UncompressedPageSize)
	default:
		return fmt.Errorf("a page of type %v: %w", h.Type, errCorrupt)
	}
	if size < 0 || size > c.end-c.at-n || h.UncompressedPageSize < 0 || h.UncompressedPageSize > pageBytes || count < 0 || count > limit {
		return fmt.Errorf("%d values in %d bytes, where %d bytes and %d values are left: %w", count, size, c.end-c.at-n, c.left, errCorrupt)
	}
	return nil
}

// valuesOf is how many values a page has, NULLs included.
func valuesOf(h *parquet.PageHeader) int64 {
	switch {
	case h.DataPageHeader != nil:
		return int64(h.DataPageHeader.NumValues)
	case h.DataPageHeaderV2 != nil:
		return int64(h.DataPageHeaderV2.NumValues)
	case h.DictionaryPageHeader != nil:
		return int64(h.DictionaryPageHeader.NumValues)
	}
	return 0
}

// bytes returns n bytes at c.at, valid until the next call.
func (c *parquetColumn) bytes(n int64) ([]byte, error) {
	if n > c.end-c.at {
		return nil, fmt.Errorf("%d bytes wanted, where %d are left: %w", n, c.end-c.at, errCorrupt)
	}
	if c.at >= c.windowAt && c.at+n <= c.windowAt+int64(len(c.window)) {
		from := c.at - c.windowAt
		return c.window[from : from+n], nil
	}
	size := min(max(n, windowBytes), c.end-c.at)
	if int64(cap(c.window)) < size {
		c.window = make([]byte, size)
	}
	c.window, c.windowAt = c.window[:size], c.at
	if err := c.section.readAt(c.window, c.at); err != nil {
		c.window = c.window[:0]
		return nil, err
	}
	return c.window[:n], nil
}

func transport(r io.Reader) *thrift.TBufferedTransport {
	return thrift.NewTBufferedTransport(thrift.NewStreamTransportR(r), headerBytes)
}
