//go:build linux

package integration

import "testing"

// editing is what editors do to a file: through a temporary file and a rename,
// with a backup, in place, appended to. $DIR is where, $FILE the file.
const editing = `
	edit() {
		dir=$1 file=$1/$2
		mkdir -p "$dir"
		printf 'one\ntwo\nthree\n' >"$file"
		chmod 640 "$file"
		sed -i 's/two/2/' "$file"
		cat "$file"
		sed -i.orig 's/one/1/' "$file"
		cat "$file.orig"; rm "$file.orig"
		stat -c '%a %s' "$file"
		vim -es -u NONE -i NONE --noplugin -N '+%s/three/3/' '+wq' "$file" </dev/null
		cat "$file"
		for how in yes no auto; do
			vim -es -u NONE -i NONE --noplugin -N "+set backup backupskip= backupcopy=$how" "+normal Go$how" '+wq' "$file" </dev/null
		done
		cat "$file" "$file~"
		stat -c '%a %s %h' "$file"
		vim -es -u NONE -i NONE --noplugin -N '+set undofile undodir=.' '+normal ddp' '+wq' "$file" </dev/null
		cat "$file"
		rm -f "$file~"
		echo appended >>"$file"
		printf 'new\n' >"$dir/.tmp" && mv "$dir/.tmp" "$file"
		cp "$file" "$dir/copy" && cp "$dir/copy" "$file" && rm "$dir/copy"
		: >"$file"; stat -c %s "$file"
		printf 'end\n' | tee "$file" >/dev/null
		find . -maxdepth 1 -name '*un~' -delete; find "$dir" -name '*un~' -delete
		ls -A "$dir"
		cat "$file"
	}
`

// TestEditors edits files of the store and of the disk, new ones and the
// project's.
func TestEditors(t *testing.T) {
	t.Parallel()
	program{
		needs: []string{"vim"},
		project: func(t *testing.T, dir string) {
			put(t, dir, "src/old.txt", "old\n")
			put(t, dir, "AGENTS.md", "# the project's\n")
			put(t, dir, "skills/lint/SKILL.md", "run the linter\n")
		},
		script: editing + `
			edit . MEMORY.md
			edit . AGENTS.md
			edit memory/deep/er notes.md
			edit skills/lint SKILL.md
			edit src old.txt
			edit . new.txt
			rm AGENTS.md skills/lint/SKILL.md
			ls -A . skills/lint
			mv MEMORY.md src/moved.md
			mv src/old.txt memory/old.md
			cat src/moved.md memory/old.md
		`,
	}.run(t)
}
