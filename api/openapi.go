package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// anything and stream are answers that are no object of ours.
type (
	anything struct{}
	stream   struct{}
)

// object is a JSON object of the document.
type object = map[string]any

// describe returns the document of the routes, in OpenAPI 3.1.
func (a *API) describe() ([]byte, error) {
	paths, schemas := object{}, object{"Error": schemaOf(reflect.TypeFor[Error]())}
	for _, r := range a.routes() {
		operation, err := a.operation(r, schemas)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		path := "/" + r.path
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(r.method)] = operation
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "fastddl", "version": a.opts.Version,
			"description": "Index builds over HTTP. Each request is SQL of the account that has logged in. Errors have MySQL's or TiDB's number.",
		},
		"servers": []object{{"url": strings.TrimSuffix(Prefix, "/")}},
		"paths":   paths,
		"components": object{
			"schemas": schemas,
			"securitySchemes": object{
				"basic":  object{"type": "http", "scheme": "basic"},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": cookieName},
				"token":  object{"type": "apiKey", "in": "header", "name": tokenHeader},
			},
		},
	}, "", " ")
}

// pathParameter is a part of a path that a request chooses.
var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// operation describes a route. It adds what the answer is made of to schemas.
func (a *API) operation(r route, schemas object) (object, error) {
	var parameters []object
	for _, m := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "integer"}})
	}
	for in, list := range map[string][]parameter{"query": r.query, "header": r.header} {
		for _, p := range list {
			parameters = append(parameters, object{"name": p.name, "in": in, "description": p.doc, "schema": object{"type": p.kind}})
		}
	}
	success, err := a.answerOf(r, schemas)
	if err != nil {
		return nil, err
	}
	failure := object{"description": "error", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
	responses := object{strconv.Itoa(max(r.status, http.StatusOK)): success, "default": failure}
	out := object{"operationId": r.id, "summary": r.summary, "responses": responses}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if r.body != nil {
		out["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": schemaOf(reflect.TypeOf(r.body()).Elem())}}}
	}
	switch {
	case r.open:
		out["security"] = []object{}
	case r.changes():
		out["security"] = []object{{"basic": []string{}}, {"cookie": []string{}, "token": []string{}}}
	default:
		out["security"] = []object{{"basic": []string{}}, {"cookie": []string{}}}
	}
	return out, nil
}

// answerOf describes what a route returns.
func (a *API) answerOf(r route, schemas object) (object, error) {
	content := func(kind string, schema object) object {
		return object{"description": r.summary, "content": object{kind: object{"schema": schema}}}
	}
	switch x := r.returns.(type) {
	case anything:
		return content("application/json", object{"type": "object"}), nil
	case stream:
		return content("text/event-stream", object{"type": "string"}), nil
	case rowsOf:
		columns := x.columns
		if x.table != "" {
			if columns = a.opts.Columns[x.table]; columns == nil {
				return nil, fmt.Errorf("the columns of %s are not known", x.table)
			}
		}
		schemas[x.name] = rowSchema(columns)
		ref := object{"$ref": "#/components/schemas/" + x.name}
		if x.list {
			ref = object{"type": "array", "items": ref}
		}
		return content("application/json", ref), nil
	}
	return content("application/json", schemaOf(reflect.TypeOf(r.returns))), nil
}

// rowSchema describes rows by the definitions of their columns.
func rowSchema(columns []string) object {
	properties := object{}
	for _, definition := range columns {
		name, rest, _ := strings.Cut(definition, " ")
		kind := "string"
		property := object{}
		switch upper := strings.ToUpper(rest); {
		case strings.HasPrefix(upper, "BIGINT"):
			kind = "integer"
		case strings.HasPrefix(upper, "DOUBLE"):
			kind = "number"
		case strings.HasPrefix(upper, "TIMESTAMP"):
			property["format"] = "date-time"
		case strings.HasPrefix(upper, "JSON"):
			kind = ""
		}
		switch {
		case kind == "":
		case strings.Contains(rest, "NOT NULL"):
			property["type"] = kind
		default:
			property["type"] = []string{kind, "null"}
		}
		properties[strings.Trim(name, "`")] = property
	}
	return object{"type": "object", "properties": properties}
}

// schemaOf describes a type of Go.
func schemaOf(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": []string{"object", "null"}}
		}
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		properties, required := object{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			property := schemaOf(f.Type)
			if doc := f.Tag.Get("doc"); doc != "" {
				property["description"] = doc
			}
			properties[fieldName(f)] = property
			if needed(f) {
				required = append(required, fieldName(f))
			}
		}
		out := object{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			slices.Sort(required)
			out["required"] = required
		}
		return out
	}
	return object{"type": "string"}
}
