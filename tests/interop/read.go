package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

var hasher = rfc6962.DefaultHasher

// reader reads one daemon in two independent ways.
type reader struct {
	ctx     context.Context
	base    string
	http    *http.Client
	tessera *client.HTTPFetcher
	damage  string // path whose first byte is flipped on its way, to see that it is noticed
}

// read checks a daemon at every checkpoint it has published, oldest first, that comes on stdin.
func read(base string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	root, err := url.Parse(base)
	if err != nil {
		return err
	}
	r := &reader{ctx: ctx, base: base, http: &http.Client{Timeout: 10 * time.Second}}
	if r.tessera, err = client.NewHTTPFetcher(root, r.http); err != nil {
		return err
	}
	var key string
	var trees []*log.Checkpoint
	var first, last []byte
	err = eachItem(os.Stdin, func(item Item) error {
		checkpoint, err := openCheckpoint(item.Note, item.Keys[0])
		report(err, "tessera formats and x/mod note open the checkpoint of size %s", item.Name)
		if err != nil {
			return err
		}
		if key = item.Keys[0]; first == nil {
			first = item.Note
		}
		last, trees = item.Note, append(trees, checkpoint)
		return nil
	})
	if err != nil || len(trees) == 0 {
		return errors.Join(errors.New("no checkpoint to start from"), err)
	}
	for i, tree := range trees {
		entries, err := r.entries(tree.Size)
		if err == nil {
			err = rootOf(entries, tree.Hash)
		}
		report(err, "both rebuild the root from entry bundles at size %d", tree.Size)
		report(r.rootFromTiles(tree), "tessera client rebuilds the root from tiles at size %d", tree.Size)
		report(r.modRootFromTiles(tree), "x/mod tlog rebuilds the root from tiles at size %d", tree.Size)
		report(r.inclusion(tree, entries), "both prove inclusion at size %d", tree.Size)
		report(r.consistency(trees[:i], tree), "both prove consistency of size %d with %d older", tree.Size, i)
	}
	r.live(key, first, last)
	r.refusals(last, trees[len(trees)-1])
	return nil
}

// entries reads all leaves of a tree through its entry bundles.
func (r *reader) entries(size uint64) ([][]byte, error) {
	getSize := func(context.Context) (uint64, error) { return size, nil }
	bundles := client.EntryBundles(r.ctx, 2, getSize, r.tessera.ReadEntryBundle, 0, size)
	unbundle := func(raw []byte) ([][]byte, error) {
		var bundle api.EntryBundle
		err := bundle.UnmarshalText(raw)
		return bundle.Entries, err
	}
	var entries [][]byte
	for entry, err := range client.Entries(bundles, unbundle) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry.Entry)
	}
	if uint64(len(entries)) != size {
		return nil, fmt.Errorf("%d entries in a tree of %d", len(entries), size)
	}
	return entries, nil
}

// rootOf hashes entries to a root, with tessera's hasher and with x/mod's.
func rootOf(entries [][]byte, want []byte) error {
	tree := (&compact.RangeFactory{Hash: hasher.HashChildren}).NewEmptyRange(0)
	stored := storedHashes(nil)
	for i, entry := range entries {
		if err := tree.Append(hasher.HashLeaf(entry), nil); err != nil {
			return err
		}
		if err := stored.add(int64(i), entry); err != nil {
			return err
		}
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		return err
	}
	other, err := tlog.TreeHash(int64(len(entries)), stored)
	if err != nil {
		return err
	}
	return errors.Join(sameRoot(root, want), sameRoot(other[:], want))
}

func (r *reader) rootFromTiles(tree *log.Checkpoint) error {
	hashes, err := client.FetchRangeNodes(r.ctx, tree.Size, r.tessera.ReadTile)
	if err != nil {
		return err
	}
	edge, err := (&compact.RangeFactory{Hash: hasher.HashChildren}).NewRange(0, tree.Size, hashes)
	if err != nil {
		return err
	}
	root, err := edge.GetRootHash(nil)
	if err != nil {
		return err
	}
	return sameRoot(root, tree.Hash)
}

func (r *reader) modRootFromTiles(tree *log.Checkpoint) error {
	root, err := tlog.TreeHash(int64(tree.Size), r.modHashes(tree))
	if err != nil {
		return err
	}
	return sameRoot(root[:], tree.Hash)
}

// inclusion builds proofs of some entries from tiles, and checks them against the signed root.
func (r *reader) inclusion(tree *log.Checkpoint, entries [][]byte) error {
	builder, err := client.NewProofBuilder(r.ctx, tree.Size, r.tessera.ReadTile)
	if err != nil {
		return err
	}
	root, hashes := tlog.Hash(tree.Hash), r.modHashes(tree)
	for _, index := range []uint64{0, 1, 254, 255, 256, tree.Size / 2, tree.Size - 1} {
		if index >= uint64(len(entries)) {
			continue
		}
		entry := entries[index]
		path, err := builder.InclusionProof(r.ctx, index)
		if err != nil {
			return err
		}
		if err := proof.VerifyInclusion(hasher, index, tree.Size, hasher.HashLeaf(entry), path, tree.Hash); err != nil {
			return err
		}
		record, err := tlog.ProveRecord(int64(tree.Size), int64(index), hashes)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(record, int64(tree.Size), root, int64(index), tlog.RecordHash(entry)); err != nil {
			return err
		}
	}
	return nil
}

// consistency builds the proofs from older trees out of tiles, and checks them against both signed roots.
func (r *reader) consistency(older []*log.Checkpoint, tree *log.Checkpoint) error {
	builder, err := client.NewProofBuilder(r.ctx, tree.Size, r.tessera.ReadTile)
	if err != nil {
		return err
	}
	hashes := r.modHashes(tree)
	for _, old := range older {
		path, err := builder.ConsistencyProof(r.ctx, old.Size, tree.Size)
		if err != nil {
			return err
		}
		if err := proof.VerifyConsistency(hasher, old.Size, tree.Size, path, old.Hash, tree.Hash); err != nil {
			return err
		}
		record, err := tlog.ProveTree(int64(tree.Size), int64(old.Size), hashes)
		if err != nil {
			return err
		}
		if err := tlog.CheckTree(record, int64(tree.Size), tlog.Hash(tree.Hash), int64(old.Size), tlog.Hash(old.Hash)); err != nil {
			return err
		}
	}
	return nil
}

// live follows the log from its first checkpoint to the one it serves now.
func (r *reader) live(key string, first, last []byte) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		report(err, "x/mod note reads the key")
		return
	}
	latest := client.UnilateralConsensus(r.tessera.ReadCheckpoint)
	tracker, err := client.NewLogStateTracker(r.ctx, r.tessera.ReadTile, first, verifier, verifier.Name(), latest)
	var now []byte
	if err == nil {
		_, _, now, err = tracker.Update(r.ctx)
	}
	if err == nil && string(now) != string(last) {
		err = fmt.Errorf("the log serves %q, last published was %q", now, last)
	}
	report(err, "tessera tracker follows the log from its first checkpoint to /checkpoint")
}

// refusals sees that the checks above can fail: each damage must be noticed.
func (r *reader) refusals(last []byte, tree *log.Checkpoint) {
	refused := func(err error, format string, args ...any) {
		if err != nil {
			report(nil, format, args...)
		} else {
			report(errors.New("it was accepted"), format, args...)
		}
	}
	_, other, err := note.GenerateKey(nil, tree.Origin)
	if err == nil {
		_, err = openCheckpoint(last, other)
	}
	refused(err, "x/mod note refuses the checkpoint under another key")
	for _, tile := range []tlog.Tile{{H: 8, W: 256}, {H: 8, L: 1, W: int(tree.Size >> 8)}} {
		r.damage = modPath(tile)
		_, err = tlog.ProveRecord(int64(tree.Size), 0, r.modHashes(tree))
		refused(err, "x/mod tlog refuses a damaged %s", r.damage)
	}
	r.damage = ""
	past := tree.Size/256 + 1
	if _, err = r.tessera.ReadTile(r.ctx, 0, past, 0); errors.Is(err, os.ErrNotExist) {
		err = nil
	} else {
		err = fmt.Errorf("want not found, got %v", err)
	}
	report(err, "tessera client sees that tile %d is not there", past)
}

// modHashes reads tiles the way x/mod does: every one is checked against the tree before it is used.
func (r *reader) modHashes(tree *log.Checkpoint) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: int64(tree.Size), Hash: tlog.Hash(tree.Hash)}, r)
}

// Height, ReadTiles and SaveTiles make the reader a tlog.TileReader.
func (r *reader) Height() int { return 8 }

// ReadTiles gets tiles by the names x/mod gives them.
func (r *reader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range tiles {
		body, err := r.get(modPath(tile))
		if err != nil {
			return nil, err
		}
		data = append(data, body)
	}
	return data, nil
}

// SaveTiles keeps nothing.
func (r *reader) SaveTiles([]tlog.Tile, [][]byte) {}

func (r *reader) get(path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.base+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	if err == nil && path == r.damage {
		body[0] ^= 1
	}
	return body, err
}
