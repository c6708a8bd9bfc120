# Types into an interactive shell, as a user would: zsh type.zsh SETUP ANSWER LINE... -- SHELL...
# After each line it presses the tab key, then Ctrl-G, which SETUP has to bind to writing the
# line to the file ANSWER and to emptying it; and prints what it found there.
zmodload zsh/zpty zsh/datetime || exit 1
setup=$1 answer=$2
shift 2
at=${argv[(i)--]}
lines=("${(@)argv[1,at-1]}")
zpty -b shell "${(@q)argv[at+1,-1]}"
seen=

# drain keeps what the shell prints: a shell whose terminal is full stands still.
drain() { local chunk; while zpty -rt shell chunk; do seen+=$chunk; done; sleep 0.02 }
await() {
	local -F end=$((EPOCHREALTIME + 30))
	until [[ -e $answer ]]; do
		drain
		if ((EPOCHREALTIME > end)); then print -ru2 -- "no answer to $1; seen: $seen"; exit 1; fi
	done
}

zpty -w shell ". $setup; : > $answer"
await setup
for line in $lines; do
	rm -f $answer
	zpty -wn shell "$line"$'\t\a'
	await $line
	print -r -- "$(<$answer)"
done
zpty -d shell
