package rows

import (
	"encoding/binary"
	"fmt"

	"github.com/xitongsys/parquet-go/compress"
	"github.com/xitongsys/parquet-go/parquet"
)

// checkPage refuses a page whose lengths and runs go beyond its bytes and its number of values. The library takes
// the memory that they ask for, and fills up with zeros what is not there.
func (c *parquetColumn) checkPage(h *parquet.PageHeader, body []byte, count int64) error {
	var encoding parquet.Encoding
	optional := c.optional
	switch {
	case h.Type == parquet.PageType_DATA_PAGE_V2:
		v2 := h.DataPageHeaderV2
		encoding = v2.Encoding
		levels := body[v2.RepetitionLevelsByteLength : v2.RepetitionLevelsByteLength+v2.DefinitionLevelsByteLength]
		if optional {
			if n, err := runs(levels, 1, count); err != nil || n < count {
				return fmt.Errorf("%d levels of %d values (%v): %w", n, count, err, errCorrupt)
			}
		}
		optional = false
		body = body[v2.RepetitionLevelsByteLength+v2.DefinitionLevelsByteLength:]
	case h.Type == parquet.PageType_DATA_PAGE:
		encoding = h.DataPageHeader.Encoding
	default:
		optional = false // a dictionary has no NULLs
	}
	data := body
	if len(body) > 0 {
		var err error
		if data, err = compress.Uncompress(body, c.meta.GetCodec()); err != nil {
			return fmt.Errorf("%v: %w", err, errCorrupt)
		}
	}
	if optional {
		if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
			return fmt.Errorf("its levels are longer than the page: %w", errCorrupt)
		}
		n := binary.LittleEndian.Uint32(data)
		if found, err := runs(data[4:4+n], 1, count); err != nil || found < count {
			return fmt.Errorf("%d levels of %d values (%v): %w", found, count, err, errCorrupt)
		}
		data = data[4+n:]
	}
	return c.checkValues(encoding, data, count)
}

func (c *parquetColumn) checkValues(encoding parquet.Encoding, data []byte, count int64) error {
	switch {
	case encoding == parquet.Encoding_RLE_DICTIONARY || encoding == parquet.Encoding_PLAIN_DICTIONARY && c.dictionary != nil:
		if len(data) == 0 {
			return nil // of NULLs only
		}
		if data[0] > 32 {
			return fmt.Errorf("numbers of %d bits: %w", data[0], errCorrupt)
		}
		_, err := runs(data[1:], int64(data[0]), count)
		return err
	case c.meta.GetType() == parquet.Type_BYTE_ARRAY && (encoding == parquet.Encoding_PLAIN || encoding == parquet.Encoding_PLAIN_DICTIONARY):
		for len(data) > 0 {
			if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
				return fmt.Errorf("a text is longer than its page: %w", errCorrupt)
			}
			data = data[4+binary.LittleEndian.Uint32(data):]
		}
	}
	return nil
}

// runs counts the values in runs of numbers of a width in bits: repeated ones, and packed ones in groups of eight.
func runs(b []byte, width, count int64) (total int64, err error) {
	for len(b) > 0 && total < count {
		header, n := binary.Uvarint(b)
		if n <= 0 {
			return total, fmt.Errorf("a run without a length: %w", errCorrupt)
		}
		b = b[n:]
		length := header >> 1
		if length > uint64(count)+8 {
			return total, fmt.Errorf("a run of %d where %d values are left: %w", length, count-total, errCorrupt)
		}
		size := (width + 7) / 8
		if header&1 == 1 {
			size = int64(length) * width
			length *= 8
		}
		if size > int64(len(b)) {
			return total, fmt.Errorf("a run of %d bytes where %d are left: %w", size, len(b), errCorrupt)
		}
		b = b[size:]
		total += int64(length)
	}
	return total, nil
}
