// Package report turns results into what people read: tables in Markdown, put
// between marks in a document that says more, and plots. It computes nothing
// that is not in the results, and the same results give the same text.
package report
