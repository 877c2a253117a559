// Command interop looks at the ledger with foreign eyes: golang.org/x/mod/sumdb (note, tlog) and the
// tessera client. It shares no code with the ledger. run.py builds it and drives it:
//
//	interop read URL    reads a running daemon over HTTP; its checkpoints come on stdin
//	interop judge       accepts or refuses the items on stdin, one verdict each
//	interop make SEED   makes notes, proofs and tile names for the ledger to accept
//
// Items, verdicts and checks are JSON, one a line; bytes are base64.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Item is a note, a proof or a tile name, made by either side.
type Item struct {
	Kind    string   `json:"kind"` // note, checkpoint, inclusion, consistency or tile
	Name    string   `json:"name"`
	Keys    []string `json:"keys,omitempty"`     // note, checkpoint: who signed, all of them
	Note    []byte   `json:"note,omitempty"`     // note, checkpoint
	Entry   []byte   `json:"entry,omitempty"`    // inclusion: the leaf itself, not its hash
	Index   int64    `json:"index,omitempty"`    // inclusion, tile
	Size    int64    `json:"size,omitempty"`     // inclusion, consistency: leaves of the tree
	OldSize int64    `json:"old_size,omitempty"` // consistency
	Proof   [][]byte `json:"proof,omitempty"`    // inclusion, consistency
	Root    []byte   `json:"root,omitempty"`     // inclusion, consistency
	OldRoot []byte   `json:"old_root,omitempty"` // consistency
	Path    string   `json:"path,omitempty"`     // tile
	Level   int      `json:"level,omitempty"`    // tile: -1 is an entry bundle
	Width   int      `json:"width,omitempty"`    // tile: 1..256
}

// Check is one line of `read`; an empty Detail means that it passed.
type Check struct {
	Check  string `json:"check"`
	Detail string `json:"detail"`
}

var out = json.NewEncoder(os.Stdout)

func main() {
	err := errors.New("usage: interop read URL | judge | make SEED")
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "read":
		err = read(args[1])
	case len(args) == 1 && args[0] == "judge":
		err = eachItem(os.Stdin, func(item Item) error { return out.Encode(judge(item)) })
	case len(args) == 2 && args[0] == "make":
		var seed uint64
		if seed, err = strconv.ParseUint(args[1], 10, 64); err == nil {
			err = makeItems(seed)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// report writes one check.
func report(err error, format string, args ...any) {
	check := Check{Check: fmt.Sprintf(format, args...)}
	if err != nil {
		check.Detail = err.Error()
	}
	if err := out.Encode(check); err != nil {
		panic(err)
	}
}

// eachItem calls a function with every line of a stream.
func eachItem(from io.Reader, do func(Item) error) error {
	decoder := json.NewDecoder(bufio.NewReader(from))
	for {
		var item Item
		if err := decoder.Decode(&item); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
}
