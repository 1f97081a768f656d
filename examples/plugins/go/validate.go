package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Method is a message: who sends it, and the types of its params and of its result, if it has any.
type Method struct{ Method, Kind, Direction, Params, Result, Capability string }

type shape struct {
	Is       string
	Name     string
	Values   []any
	Items    *shape
	Arms     []*shape
	Fields   map[string]*shape
	Required []string
	Closed   bool

	Minimum, Maximum json.Number
	MinItems         *int `json:"min_items"`
	MaxItems         *int `json:"max_items"`
	MinLength        *int `json:"min_length"`
	MaxLength        *int `json:"max_length"`
}

var table = func() map[string]*shape {
	var read map[string]*shape
	decoder := json.NewDecoder(strings.NewReader(shapes))
	decoder.UseNumber()
	if err := decoder.Decode(&read); err != nil {
		panic(err)
	}
	return read
}()

// Parse returns a pointer to a new value of a type, read from JSON that the schema accepts.
func Parse(name string, data []byte) (any, error) {
	if err := Check(name, data); err != nil {
		return nil, err
	}
	value := makers[name]()
	return value, json.Unmarshal(data, value)
}

// Check returns an error that names the first place where JSON is not of a type: strictly as the schema has it.
func Check(name string, data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("the JSON ends before the text does")
	}
	if table[name] == nil {
		return fmt.Errorf("the schema has no type %q", name)
	}
	return check(&shape{Is: "ref", Name: name}, value, name)
}

func check(s *shape, value any, at string) error {
	wrong := fmt.Errorf("%s: %v is not of the type %s", at, value, s.Is)
	switch s.Is {
	case "any":
		return nil
	case "ref":
		return check(table[s.Name], value, at)
	case "values":
		for _, allowed := range s.Values {
			if same(allowed, value) {
				return nil
			}
		}
		return fmt.Errorf("%s: %v is not one of %v", at, value, s.Values)
	case "union":
		for _, arm := range s.Arms {
			if check(arm, value, at) == nil {
				return nil
			}
		}
		return fmt.Errorf("%s: %v matches no arm of a union", at, value)
	}
	switch given := value.(type) {
	case nil:
		if s.Is == "null" {
			return nil
		}
	case bool:
		if s.Is == "boolean" {
			return nil
		}
	case string:
		if s.Is == "string" {
			return between(utf8.RuneCountInString(given), s.MinLength, s.MaxLength, at)
		}
	case json.Number:
		if s.Is == "number" || s.Is == "integer" && rational(given).IsInt() {
			return inRange(s, given, at)
		}
	case []any:
		if s.Is == "array" {
			for index, item := range given {
				if err := check(s.Items, item, fmt.Sprintf("%s[%d]", at, index)); err != nil {
					return err
				}
			}
			return between(len(given), s.MinItems, s.MaxItems, at)
		}
	case map[string]any:
		if s.Is == "object" || s.Is == "map" {
			return members(s, given, at)
		}
	}
	return wrong
}

func members(s *shape, given map[string]any, at string) error {
	for _, name := range s.Required {
		if _, there := given[name]; !there {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	for name, item := range given {
		form := s.Items
		if s.Is == "object" {
			form = s.Fields[name]
		}
		if form == nil {
			if s.Closed {
				return fmt.Errorf("%s: the schema has no property %s", at, name)
			}
			continue
		}
		if err := check(form, item, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func inRange(s *shape, given json.Number, at string) error {
	low := s.Minimum != "" && rational(given).Cmp(rational(s.Minimum)) < 0
	high := s.Maximum != "" && rational(given).Cmp(rational(s.Maximum)) > 0
	if low || high {
		return fmt.Errorf("%s: %s is outside its range", at, given)
	}
	return nil
}

func between(count int, least, most *int, at string) error {
	if least != nil && count < *least || most != nil && count > *most {
		return fmt.Errorf("%s: has the length %d", at, count)
	}
	return nil
}

func rational(number json.Number) *big.Rat {
	read, ok := new(big.Rat).SetString(string(number))
	if !ok { // An exponent beyond what big.Rat reads.
		return big.NewRat(1, 2)
	}
	return read
}

func same(allowed, value any) bool {
	left, isNumber := allowed.(json.Number)
	right, both := value.(json.Number)
	if isNumber && both {
		return rational(left).Cmp(rational(right)) == 0
	}
	return isNumber == both && reflect.DeepEqual(allowed, value)
}

// joined writes an object with the properties that the schema does not have.
func joined(plain any, extra map[string]json.RawMessage) ([]byte, error) {
	data, err := json.Marshal(plain)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	more, err := json.Marshal(extra)
	if err != nil || len(data) == 2 {
		return more, err
	}
	return append(append(data[:len(data)-1], ','), more[1:]...), nil
}

// divided reads an object, and keeps the properties that the schema does not have.
func divided(data []byte, plain any, extra *map[string]json.RawMessage) error {
	if err := json.Unmarshal(data, plain); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	form := reflect.TypeOf(plain).Elem()
	for index := range form.NumField() {
		name, _, _ := strings.Cut(form.Field(index).Tag.Get("json"), ",")
		delete(all, name)
	}
	if len(all) > 0 {
		*extra = all
	}
	return nil
}
