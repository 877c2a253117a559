package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api/layout"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// judge asks every tool that knows the kind of item; the answer is "" or why it was refused.
func judge(item Item) map[string]string {
	verdicts := map[string]string{}
	ask := func(tool string, err error) {
		verdicts[tool] = ""
		if err != nil {
			verdicts[tool] = err.Error()
		}
	}
	switch item.Kind {
	case "note":
		_, err := openNote(item.Note, item.Keys)
		ask("x/mod note", err)
	case "checkpoint":
		_, err := openCheckpoint(item.Note, item.Keys[0])
		ask("tessera formats", err)
	case "inclusion":
		ask("x/mod tlog", checkRecord(item))
		ask("tessera merkle", proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(item.Index),
			uint64(item.Size), rfc6962.DefaultHasher.HashLeaf(item.Entry), item.Proof, item.Root))
	case "consistency":
		ask("x/mod tlog", checkTree(item))
		ask("tessera merkle", proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(item.OldSize),
			uint64(item.Size), item.Proof, item.OldRoot, item.Root))
	case "tile":
		ask("x/mod tlog", checkPath(item))
		ask("tessera layout", checkLayout(item))
	default:
		ask("judge", fmt.Errorf("unknown kind %q", item.Kind))
	}
	return verdicts
}

// openNote opens a note that all of the keys must have signed.
func openNote(raw []byte, keys []string) (*note.Note, error) {
	var verifiers []note.Verifier
	for _, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, verifier)
	}
	opened, err := note.Open(raw, note.VerifierList(verifiers...))
	if err == nil && len(opened.Sigs) != len(keys) {
		err = fmt.Errorf("signed by %d of %d keys", len(opened.Sigs), len(keys))
	}
	return opened, err
}

// openCheckpoint opens the checkpoint of the log that has the key's name.
func openCheckpoint(raw []byte, key string) (*log.Checkpoint, error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return nil, err
	}
	checkpoint, rest, _, err := log.ParseCheckpoint(raw, verifier.Name(), verifier)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the root", len(rest))
	}
	return checkpoint, err
}

func checkRecord(item Item) error {
	hashes, err := toHashes(append(item.Proof, item.Root))
	if err != nil {
		return err
	}
	last := len(hashes) - 1
	return tlog.CheckRecord(hashes[:last], item.Size, hashes[last], item.Index, tlog.RecordHash(item.Entry))
}

func checkTree(item Item) error {
	hashes, err := toHashes(append(item.Proof, item.OldRoot, item.Root))
	if err != nil {
		return err
	}
	last := len(hashes) - 1
	return tlog.CheckTree(hashes[:last-1], item.Size, hashes[last], item.OldSize, hashes[last-1])
}

func toHashes(slices [][]byte) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(slices))
	for i, slice := range slices {
		if len(slice) != tlog.HashSize {
			return nil, fmt.Errorf("hash of %d bytes", len(slice))
		}
		copy(hashes[i][:], slice)
	}
	return hashes, nil
}

// modPath is the name x/mod gives a tile of eight levels, without the height that C2SP left out.
func modPath(tile tlog.Tile) string {
	path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
	return strings.Replace(path, "tile/data/", "tile/entries/", 1)
}

func checkPath(item Item) error {
	path := strings.Replace(item.Path, "tile/entries/", "tile/data/", 1)
	tile, err := tlog.ParseTilePath(strings.Replace(path, "tile/", "tile/8/", 1))
	if want := (tlog.Tile{H: 8, L: item.Level, N: item.Index, W: item.Width}); err == nil && tile != want {
		err = fmt.Errorf("reads as %+v", tile)
	}
	return err
}

func checkLayout(item Item) error {
	level, rest, _ := strings.Cut(strings.TrimPrefix(item.Path, "tile/"), "/")
	index, partial, err := layout.ParseTileIndexPartial(rest)
	if err != nil {
		return err
	}
	number := uint64(0)
	if level != "entries" {
		if number, err = layout.ParseTileLevel(level); err != nil {
			return err
		}
	} else if item.Level == -1 {
		level = "-1"
	}
	if level != strconv.Itoa(item.Level) || (item.Level >= 0 && number != uint64(item.Level)) ||
		index != uint64(item.Index) || int(partial) != item.Width%layout.TileWidth {
		return fmt.Errorf("reads as level %s, index %d, width %d", level, index, partial)
	}
	return nil
}

// sameRoot compares a root that was rebuilt with the one that was signed.
func sameRoot(got []byte, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("got root %x, signed is %x", got, want)
	}
	return nil
}
