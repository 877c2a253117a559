package main

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strings"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/tessera/api/layout"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// makeItems writes items of every kind. Trees and paths follow from the seed; keys are fresh.
func makeItems(seed uint64) error {
	random := mathrand.New(mathrand.NewPCG(seed, 6962))
	if err := makeNotes(); err != nil {
		return err
	}
	sizes := []int{1, 2, 3, 5, 7, 8, 255, 256, 257}
	for range 12 {
		sizes = append(sizes, 9+random.IntN(1500))
	}
	for _, size := range sizes {
		if err := makeProofs(random, int64(size)); err != nil {
			return err
		}
	}
	return makePaths(random)
}

func makeNotes() error {
	texts := []string{
		"one line\n",
		"two\nlines\n",
		"with\n\nempty\n\n\nlines\n",
		"— looks like a signature line\n",
		"π ≠ 3, \u2028 and \u0085 end no line\n",
		strings.Repeat("long ", 200) + "\n",
	}
	for i, text := range texts {
		name := []string{"example.com/log", "witness.example", "журнал.example/№1"}[i%3]
		if err := signNote("note", fmt.Sprintf("note %d", i), text, name); err != nil {
			return err
		}
	}
	if err := signNote("note", "note of three", "signed thrice\n", "a.example", "b.example", "c.example"); err != nil {
		return err
	}
	for _, size := range []uint64{1, 255, 1 << 40, 1<<63 - 1} {
		root := make([]byte, 32)
		rand.Read(root)
		text := log.Checkpoint{Origin: "example.com/log", Size: size, Hash: root}.Marshal()
		if err := signNote("checkpoint", fmt.Sprintf("size %d", size), string(text), "example.com/log"); err != nil {
			return err
		}
	}
	return nil
}

// signNote writes a note signed by fresh keys of these names.
func signNote(kind, name, text string, signers ...string) error {
	item := Item{Kind: kind, Name: name}
	var keys []note.Signer
	for _, signer := range signers {
		private, public, err := note.GenerateKey(rand.Reader, signer)
		if err != nil {
			return err
		}
		key, err := note.NewSigner(private)
		if err != nil {
			return err
		}
		item.Keys, keys = append(item.Keys, public), append(keys, key)
	}
	var err error
	if item.Note, err = note.Sign(&note.Note{Text: text}, keys...); err != nil {
		return err
	}
	return out.Encode(item)
}

// makeProofs writes proofs in a tree of random leaves.
func makeProofs(random *mathrand.Rand, size int64) error {
	entries, stored := make([][]byte, size), storedHashes(nil)
	for i := range entries {
		entries[i] = make([]byte, random.IntN(40))
		for j := range entries[i] {
			entries[i][j] = byte(random.Uint32())
		}
		if err := stored.add(int64(i), entries[i]); err != nil {
			return err
		}
	}
	root, err := tlog.TreeHash(size, stored)
	if err != nil {
		return err
	}
	for _, index := range []int64{0, size - 1, size / 2, random.Int64N(size), random.Int64N(size)} {
		proof, err := tlog.ProveRecord(size, index, stored)
		if err != nil {
			return err
		}
		item := Item{Kind: "inclusion", Name: fmt.Sprintf("leaf %d of %d", index, size), Entry: entries[index],
			Index: index, Size: size, Proof: toSlices(proof), Root: root[:]}
		if err := out.Encode(item); err != nil {
			return err
		}
	}
	for _, old := range []int64{size, 1 + random.Int64N(size), 1 + random.Int64N(size), max(1, size/2), max(1, size-1)} {
		oldRoot, err := tlog.TreeHash(old, stored)
		if err != nil {
			return err
		}
		proof, err := tlog.ProveTree(size, old, stored)
		if err != nil {
			return err
		}
		item := Item{Kind: "consistency", Name: fmt.Sprintf("%d to %d", old, size), OldSize: old,
			Size: size, Proof: toSlices(proof), OldRoot: oldRoot[:], Root: root[:]}
		if err := out.Encode(item); err != nil {
			return err
		}
	}
	return nil
}

// makePaths writes tile names, by x/mod and by tessera in turn.
func makePaths(random *mathrand.Rand) error {
	for i := range 400 {
		index := random.Int64N(1 << (1 + random.IntN(54)))
		level, width := random.IntN(8)-1, 1+random.IntN(256)
		if i%4 < 2 {
			width = 256
		}
		item := Item{Kind: "tile", Level: level, Index: index, Width: width}
		if i%2 == 0 {
			item.Path = modPath(tlog.Tile{H: 8, L: level, N: index, W: width})
		} else if level < 0 {
			item.Path = layout.EntriesPath(uint64(index), uint8(width%256))
		} else {
			item.Path = layout.TilePath(uint64(level), uint64(index), uint8(width%256))
		}
		item.Name = item.Path
		if err := out.Encode(item); err != nil {
			return err
		}
	}
	return nil
}

// storedHashes is a tree as x/mod stores one, in memory.
type storedHashes []tlog.Hash

func (s storedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index >= int64(len(s)) {
			return nil, fmt.Errorf("no stored hash %d", index)
		}
		hashes[i] = s[index]
	}
	return hashes, nil
}

func (s *storedHashes) add(index int64, entry []byte) error {
	hashes, err := tlog.StoredHashes(index, entry, *s)
	*s = append(*s, hashes...)
	return err
}

func toSlices(hashes []tlog.Hash) [][]byte {
	slices := make([][]byte, len(hashes))
	for i := range hashes {
		slices[i] = hashes[i][:]
	}
	return slices
}
