package config

import (
	"strconv"
	"strings"
)

// Values of ReorgPriority, in ascending order.
const (
	PriorityLow    = "PRIORITY_LOW"
	PriorityNormal = "PRIORITY_NORMAL"
	PriorityHigh   = "PRIORITY_HIGH"
)

var enumValues = map[string][]string{
	ReorgPriority: {PriorityLow, PriorityNormal, PriorityHigh},
}

// Values lists what a variable of KindEnum takes.
func (v *SysVar) Values() []string { return enumValues[v.Name] }

// InSession says that each session has a value of its own, which begins as the
// global one.
func (v *SysVar) InSession() bool { return v.Name == ReorgPriority }

// enumValue returns the value that text names, in any case, or by its number.
func (v *SysVar) enumValue(text string) (canonical string, ok bool) {
	for i, value := range v.Values() {
		if strings.EqualFold(value, text) || strconv.Itoa(i) == text {
			return value, true
		}
	}
	return "", false
}
