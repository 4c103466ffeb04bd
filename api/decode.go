package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// decode reads one JSON object into a pointer to a struct or map. Fields that it does not know are an error, as are those that are missing
// although the struct needs them.
func decode(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("it is empty, and has to be a JSON object")
	}
	if data = bytes.TrimSpace(data); data[0] != '{' {
		return errors.New("it is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something comes behind the object")
	}
	v := reflect.ValueOf(into).Elem()
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); needed(f) && v.Field(i).IsZero() {
			return fmt.Errorf("%s is missing", fieldName(f))
		}
	}
	return nil
}

// needed says that a field may not be left out.
func needed(f reflect.StructField) bool { return f.Tag.Get("need") != "" }

// fieldName is the name of a field in JSON.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
