module github.com/signposthq/signpost

go 1.26
