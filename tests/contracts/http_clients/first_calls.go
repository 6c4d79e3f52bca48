// Makes each call with a client of its own: `base (path body)...`; prints one line a call, status and body.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	words := os.Args[2:]
	for at := 0; at < len(words); at += 2 {
		client := &http.Client{Transport: &http.Transport{}}
		answer, err := client.Post(os.Args[1]+words[at], "application/json", strings.NewReader(words[at+1]))
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(err)
		}
		fmt.Println(answer.StatusCode, strings.TrimSpace(string(body)))
	}
}
