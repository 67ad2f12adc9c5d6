// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package strictjson_test

import (
	"strings"
	"testing"

	"github.com/signposthq/signpost/internal/strictjson"
)

func TestDecode(t *testing.T) {
	for body, want := range map[string]string{ // "" is no error
		`{}`: "", ` {"key":"a","cost":1} `: "", `{"key":"\ud83d\ude00"}`: "", `{"\u006bey":"a"}`: "",
		``: "not a whole", `{"key":"sec`: "not a whole", `{"key":"secret",,}`: "not JSON, at byte 17", `{"key":"a"}{}`: "more than one", `{"key":"a"} x`: "more than one",
		`null`: "not a JSON object", `["secret"]`: "not a JSON object", `{"key":7}`: "key: want a text", `{"cost":"secret"}`: "cost: want a whole number",
		`{"KEY":"secret"}`: `"KEY": no such field; here can stand: key, cost`, `{"other":1}`: `"other": no such field`,
		`{"key":"a","key":"secret"}`: "key: is there twice", `{"key":"a","\u006bey":"secret"}`: "key: is there twice",
		`{"key":"\ud800"}`: "not Unicode", `{"key":"\udc00\ud800"}`: "not Unicode", "{\"key\":\"\xff\"}": "not Unicode", "{\"key\":\"\ufffd\"}": "not Unicode",
	} {
		var into struct {
			Key  string `json:"key,omitempty"`
			Cost uint32 `json:"cost"`
		}
		err := strictjson.Decode([]byte(body), &into)
		switch {
		case err == nil && want != "", err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want %q", body, err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the error repeats a value: %v", body, err)
		}
	}
}
