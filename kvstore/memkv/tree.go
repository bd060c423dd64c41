package memkv

import (
	"hash/maphash"
	"strings"

	"github.com/wsfs/wsfs/kvstore"
)

// A node is the root of an immutable treap: ordered by key, and a heap by
// priority. Changes copy the path they touch, so whoever holds a root has a
// tree that never changes under it.
type node struct {
	item        kvstore.Item
	priority    uint64 // a hash of the key, so that the shape is random
	left, right *node
}

// seed makes the shape of trees unpredictable to whoever chooses the keys.
var seed = maphash.MakeSeed()

// get returns the node of key, or nil.
func (n *node) get(key kvstore.Key) *node {
	for n != nil && n.item.Key != key {
		if key < n.item.Key {
			n = n.left
		} else {
			n = n.right
		}
	}
	return n
}

// put returns a tree that holds item besides what n holds.
func (n *node) put(item kvstore.Item) *node {
	if n == nil {
		return &node{item: item, priority: maphash.String(seed, string(item.Key))}
	}
	c := *n
	switch {
	case item.Key == n.item.Key:
		c.item = item
	case item.Key < n.item.Key:
		c.left = n.left.put(item)
		if c.left.priority > c.priority {
			return c.rotateRight()
		}
	default:
		c.right = n.right.put(item)
		if c.right.priority > c.priority {
			return c.rotateLeft()
		}
	}
	return &c
}

// rotateRight puts n's left child, which nobody else holds yet, on top.
func (n *node) rotateRight() *node {
	top := n.left
	n.left = top.right
	top.right = n
	return top
}

// rotateLeft puts n's right child, which nobody else holds yet, on top.
func (n *node) rotateLeft() *node {
	top := n.right
	n.right = top.left
	top.left = n
	return top
}

// remove returns a tree that holds what n holds except key.
func (n *node) remove(key kvstore.Key) *node {
	if n == nil {
		return nil
	}
	c := *n
	switch {
	case key == n.item.Key:
		return merge(n.left, n.right)
	case key < n.item.Key:
		c.left = n.left.remove(key)
	default:
		c.right = n.right.remove(key)
	}
	return &c
}

// merge joins two trees of which every key of a is below every key of b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		c := *a
		c.right = merge(a.right, b)
		return &c
	default:
		c := *b
		c.left = merge(a, b.left)
		return &c
	}
}

// scan calls fn for the items whose key begins with prefix, ascending, until
// fn fails.
func (n *node) scan(prefix kvstore.Key, fn func(kvstore.Item) error) error {
	if n == nil {
		return nil
	}
	inside := strings.HasPrefix(string(n.item.Key), string(prefix))
	if inside || n.item.Key > prefix {
		if err := n.left.scan(prefix, fn); err != nil {
			return err
		}
	}
	if inside {
		if err := fn(n.item); err != nil {
			return err
		}
	}
	if inside || n.item.Key < prefix {
		return n.right.scan(prefix, fn)
	}
	return nil
}
