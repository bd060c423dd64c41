package kvlayer

import (
	"bytes"
	"slices"
	"strings"
)

// merge3 joins what mine and theirs changed in base, line by line. ok is false
// if both changed the same place differently, or neighbouring lines, or if one
// of the three is not text. What only one side changed is as that side has it;
// what both changed alike is there once.
func merge3(base, mine, theirs []byte) (merged []byte, ok bool) {
	for _, b := range [][]byte{base, mine, theirs} {
		if bytes.IndexByte(b, 0) >= 0 {
			return nil, false
		}
	}
	o, a, b := lines(base), lines(mine), lines(theirs)
	toA, toB := match(o, a), match(o, b)
	var out []string
	var i, j, k int // the next lines of o, a and b
	for {
		stable := nextStable(toA, toB, i)
		endA, endB := len(a), len(b)
		if stable < len(o) {
			endA, endB = toA[stable], toB[stable]
		}
		part, ok := choose(o[i:stable], a[j:endA], b[k:endB])
		if !ok {
			return nil, false
		}
		out = append(out, part...)
		if stable == len(o) {
			return []byte(strings.Join(out, "")), true
		}
		out = append(out, o[stable])
		i, j, k = stable+1, endA+1, endB+1
	}
}

// nextStable returns the first line of base from i on that both sides kept.
func nextStable(toA, toB []int, i int) int {
	for i < len(toA) && (toA[i] < 0 || toB[i] < 0) {
		i++
	}
	return i
}

// choose decides between what two sides made of the lines o.
func choose(o, a, b []string) (part []string, ok bool) {
	switch {
	case slices.Equal(a, b), slices.Equal(o, b):
		return a, true
	case slices.Equal(o, a):
		return b, true
	}
	return nil, false
}

// lines cuts b behind each newline.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	l := strings.SplitAfter(string(b), "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

// match returns for each line of a the line of b it corresponds to, -1 for
// none. Lines correspond in order, and are equal.
func match(a, b []string) []int {
	m := make([]int, len(a))
	for i := range m {
		m[i] = -1
	}
	matchRange(a, b, m, 0, len(a), 0, len(b))
	return m
}

// matchRange matches a[i0:i1] with b[j0:j1]: what they begin and end with,
// then around lines that occur once in both, then by the longest common
// subsequence if what is left is small.
func matchRange(a, b []string, m []int, i0, i1, j0, j1 int) {
	for i0 < i1 && j0 < j1 && a[i0] == b[j0] {
		m[i0] = j0
		i0, j0 = i0+1, j0+1
	}
	for i0 < i1 && j0 < j1 && a[i1-1] == b[j1-1] {
		i1, j1 = i1-1, j1-1
		m[i1] = j1
	}
	if i0 == i1 || j0 == j1 {
		return
	}
	anchors := uniqueInBoth(a[i0:i1], b[j0:j1])
	if len(anchors) == 0 {
		matchSmall(a, b, m, i0, i1, j0, j1)
		return
	}
	// Between two anchors it starts anew.
	i, j := i0, j0
	for _, at := range longestAscending(anchors) {
		nextI, nextJ := i0+at[0], j0+at[1]
		matchRange(a, b, m, i, nextI, j, nextJ)
		m[nextI] = nextJ
		i, j = nextI+1, nextJ+1
	}
	matchRange(a, b, m, i, i1, j, j1)
}

// uniqueInBoth returns the pairs of equal lines that occur once in a and once
// in b, in the order of a.
func uniqueInBoth(a, b []string) (pairs [][2]int) {
	type seen struct{ inA, inB, at int }
	count := map[string]*seen{}
	for _, line := range a {
		if count[line] == nil {
			count[line] = &seen{}
		}
		count[line].inA++
	}
	for j, line := range b {
		if s := count[line]; s != nil {
			s.inB++
			s.at = j
		}
	}
	for i, line := range a {
		if s := count[line]; s.inA == 1 && s.inB == 1 {
			pairs = append(pairs, [2]int{i, s.at})
		}
	}
	return pairs
}

// longestAscending returns a longest subsequence of pairs whose second numbers
// ascend.
func longestAscending(pairs [][2]int) [][2]int {
	var tails []int // index of the pair that ends the best run of each length
	prev := make([]int, len(pairs))
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(tails, p[1], func(t, j int) int { return pairs[t][1] - j })
		prev[i] = -1
		if n > 0 {
			prev[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
			tails[n] = i
		}
	}
	var run [][2]int
	for i := tails[len(tails)-1]; i >= 0; i = prev[i] {
		run = append(run, pairs[i])
	}
	slices.Reverse(run)
	return run
}

// maxTable bounds the table of matchSmall; more is left unmatched, which makes
// a merge fail and never go wrong.
const maxTable = 1 << 20

// matchSmall matches by a longest common subsequence, from a table of the
// longest for every pair of rests.
func matchSmall(a, b []string, m []int, i0, i1, j0, j1 int) {
	rows, cols := i1-i0, j1-j0
	if rows*cols > maxTable {
		return
	}
	longest := make([][]int32, rows+1)
	for i := range longest {
		longest[i] = make([]int32, cols+1)
	}
	for i := rows - 1; i >= 0; i-- {
		for j := cols - 1; j >= 0; j-- {
			if a[i0+i] == b[j0+j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < rows && j < cols; {
		switch {
		case a[i0+i] == b[j0+j]:
			m[i0+i] = j0 + j
			i, j = i+1, j+1
		case longest[i+1][j] >= longest[i][j+1]:
			i++
		default:
			j++
		}
	}
}
