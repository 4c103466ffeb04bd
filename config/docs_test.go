package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// documentRows returns the cells of each row of the tables in docs/operations.md, by each name in code in its first cell.
func documentRows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	require.NoError(t, err)
	rows := make(map[string][]string)
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for _, m := range inCode.FindAllStringSubmatch(cells[0], -1) {
			rows[m[1]] = cells
		}
	}
	return rows
}

var inCode = regexp.MustCompile("`([^`]+)`")

// TestSettingsAreDocumented: docs/operations.md has a row for each key of the file, which says its default where that is a
// constant.
func TestSettingsAreDocumented(t *testing.T) {
	rows := documentRows(t)
	c := Default()
	c.Path = "PATH"
	c.EnsureDefaults()
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name, field := prefix+v.Type().Field(i).Tag.Get("toml"), v.Field(i)
			if field.Kind() == reflect.Struct {
				walk(name+".", field)
				continue
			}
			require.Contains(t, rows, name)
			if field.IsZero() || len(inCode.FindAllString(rows[name][0], -1)) > 1 || name == "path" || name == "advertise-address" || name == "log.slow-query-file" {
				continue
			}
			value := fmt.Sprint(field.Interface())
			require.Contains(t, rows[name][1], "`"+value+"`", "the default of %s", name)
		}
	}
	walk("", reflect.ValueOf(&c).Elem())
}

// TestVariablesAreDocumented: docs/operations.md has a row for each variable, with its default and its range.
func TestVariablesAreDocumented(t *testing.T) {
	rows := documentRows(t)
	require.Contains(t, rows, MaxDistTaskNodes)
	for i := range SysVars {
		v := &SysVars[i]
		require.Contains(t, rows, v.Name)
		cells := rows[v.Name]
		normal := func(text string) string {
			if v.Kind == KindByteSize {
				n, err := parseSize(text)
				require.NoError(t, err, v.Name)
				return ByteSize(n).String()
			}
			value, clamped, err := v.Normalize(text)
			require.NoError(t, err, v.Name)
			require.False(t, clamped, "%s: %s is outside the range", v.Name, text)
			return value
		}
		if v.Default != "" {
			require.Equal(t, normal(v.Default), normal(strings.Trim(cells[1], "`")), "the default of %s", v.Name)
		}
		switch v.Kind {
		case KindEnum:
			require.Len(t, inCode.FindAllString(cells[2], -1), len(v.Values), v.Name)
		case KindInt, KindByteSize, KindDuration:
			bounds := inCode.FindAllStringSubmatch(cells[2], -1)
			if v.Max == math.MaxInt64 {
				require.Contains(t, cells[2], "or more", v.Name)
			} else {
				require.Len(t, bounds, 2, v.Name)
				require.Equal(t, normal(bound(v, v.Max)), normal(bounds[1][1]), "the most of %s", v.Name)
			}
			require.Equal(t, normal(bound(v, v.Min)), normal(bounds[0][1]), "the least of %s", v.Name)
		}
	}
}

// bound is the text of a bound of a variable's range.
func bound(v *SysVar, n int64) string {
	if v.Kind == KindDuration {
		return (time.Duration(n) * time.Second).String()
	}
	return strconv.FormatInt(n, 10)
}
