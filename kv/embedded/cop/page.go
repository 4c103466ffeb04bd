package cop

import (
	"context"

	"github.com/pingcap/kvproto/pkg/coprocessor"
)

// DefaultPageBytes is the size of a page if the caller sets none.
const DefaultPageBytes = 4 << 20

// Page bounds the size of an answer. A request whose PagingSize is set gets a page: it ends after that many rows, or
// where it has Bytes, whichever is first; Response.Range says how far it went. It has at least one row, however large.
// Requests without PagingSize are answered whole, unless Rest is set.
type Page struct {
	// Bytes is where an answer ends; 0 is DefaultPageBytes.
	Bytes uint64
	// Rest takes what a page of a request without PagingSize leaves to be read. It is not called if that is nothing.
	// ANALYZE cannot be paged by the protocol, nor can ranges of which one repeats another.
	Rest func(ranges []*coprocessor.KeyRange)
}

func (p Page) bytes() uint64 {
	if p.Bytes == 0 {
		return DefaultPageBytes
	}
	return p.Bytes
}

// limit is the number of bytes after which an answer to req ends, 0 if it has no end.
func (p Page) limit(req *coprocessor.Request) uint64 {
	if req.PagingSize == 0 && p.Rest == nil {
		return 0
	}
	return p.bytes()
}

// Handle is HandlePage with pages of the default size.
func Handle(ctx context.Context, r Reader, req *coprocessor.Request) *coprocessor.Response {
	return HandlePage(ctx, r, req, Page{})
}
