// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package strictjson_test

import (
	"encoding/json"
	"testing"

	"github.com/signposthq/signpost/internal/strictjson"
)

func TestCheck(t *testing.T) {
	for body, good := range map[string]bool{
		`{}`: true, `{"key":"a","cost":1}`: true, `{"key":"\ud83d\ude00"}`: true, `{"\u006bey":"a"}`: true,
		`null`: false, `{"KEY":"a"}`: false, `{"key":"a","key":"a"}`: false, `{"key":"a","\u006bey":"b"}`: false,
		`{"key":"\ud800"}`: false, `{"key":"\udc00\ud800"}`: false, "{\"key\":\"\xff\"}": false, "{\"key\":\"\ufffd\"}": false,
	} {
		var into struct {
			Key  string `json:"key,omitempty"`
			Cost int    `json:"cost"`
		}
		if err := json.Unmarshal([]byte(body), &into); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if err := strictjson.Check([]byte(body), &into); (err == nil) != good {
			t.Errorf("%q: error %v, want one: %v", body, err, !good)
		}
	}
}
