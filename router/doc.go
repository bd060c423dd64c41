// Package router says where a path of the workspace is kept and whose it is.
// It is pure: no I/O, no state, the same answer for the same input.
//
// # Routes
//
// A Table maps a name to its Route. A route has a prefix (memory/) or is one
// file (MEMORY.md), and a segment: the part of a store's key space its files
// are in. A name that no route covers belongs to the segment "", the local
// disk. Names are matched by whole components and byte by byte; the longest
// prefix wins. A name below a file's route (MEMORY.md/x) belongs to that
// route, too, so that a tree is never torn between two layers.
//
// The built-in routes are
//
//	AGENTS.md MEMORY.md tools.json              segment root
//	memory/ skills/ subagents/ knowledge/ plans/  segments of the same names
//	agents/<agent>/sessions/ agents/<agent>/tasks/  segments sessions, tasks
//
// where <agent> is the workspace's agent, encoded; the same word as a
// component of any rule stands for it, too.
//
// A rule of the user's adds a route. It may lie inside another route
// (memory/private/=session), or around one. If it names the path of a
// built-in route it sets that route's scope. It is an error if two rules of
// the user's name one path, if a path is named as a file and as a directory,
// and if a rule lies below a file: the error names both rules.
//
// A segment of the user's is named as its path is, encoded (docs/notes/ is
// docs%2Fnotes). Where that is a built-in segment with another path, the first
// byte is encoded, too (root/ is %72oot). If routes of one built-in segment
// have different scopes, those whose scope is not the workspace's get a
// segment with the scope behind an equals sign (root=agent) that shares the
// key space of the first: see Segment.In.
//
// # Local patterns
//
// A local pattern takes names back to the local disk, whatever the routes say.
// It is a path relative to the workspace's root; each component is matched as
// path.Match does, and the component ** stands for any number of components,
// or, at the end, for at least one. A pattern covers what it matches and
// everything below that. It is anchored: *.tmp is a name in the root, **/*.tmp
// a name anywhere.
//
// # Scopes and namespaces
//
// A Scope says who shares the files of a route; with the Identity it gives the
// namespace, a prefix of the store's keys (Resolve):
//
//	session  agents/<agent>/sessions/<session>  without a session: private
//	user     agents/<agent>/users/<user>        without a user: as session
//	agent    agents/<agent>/shared
//	global   global
//	private  workspaces/<workspace>             of this workspace alone
//
// An id of nothing but white space is missing. Without an agent every scope
// but global is private: a missing id never leads to a place that others
// share. No namespace is the beginning, by whole components, of another one,
// and two identities have one namespace only if all ids in it are equal.
//
// # Encoding
//
// An id, being any bytes, becomes one component of a key or a path by Encode:
// ASCII letters, digits and -_.~@+ are kept, each other byte is %XX. The ids
// "." and ".." are encoded whole. An id that would come out longer than
// MaxEncoded bytes has the digest form: the beginning, an equals sign and the
// SHA-256 of the whole id in hexadecimal digits. Encoded ids differ in letter
// case, so a file system that folds case must not hold them as names.
package router
