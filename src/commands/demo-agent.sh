#!/bin/sh
# The agent of `ralph demo`: writes the page of its task, commits it and reports. One attempt reports
# work with an error, to show what a check is for. The first argument is the program `ralph`.
set -eu
prompt=$(cat)
case $prompt in
"# Task $RALPH_TASK_ID"*) ;;
*)
    echo "the prompt is for another task" >&2
    exit 1
    ;;
esac
echo "reading the prompt ($(printf '%s\n' "$prompt" | wc -l) lines)"
# Long enough to follow on a terminal.
sleep 0.4

case $RALPH_TASK_ID in
outline)
    path=README.md message='Write the outline'
    text='# A field guide to three birds\n\nSee [the index](INDEX.md).\n'
    ;;
robin)
    path=birds/robin.md message='Describe the robin'
    text='# Robin\n\nRed breast, round body, sings all winter.\n'
    ;;
heron)
    path=birds/heron.md message='Describe the heron'
    text='# Heron\n\nGrey, tall, stands in the water and waits.\n'
    ;;
swift)
    path=birds/swift.md message='Describe the swift'
    text='# Swift\n\nEats, drinks and sleeps on the wing.\n'
    ;;
index)
    path=INDEX.md message='Make an index of the birds'
    text='# Index\n\n- [Heron](birds/heron.md)\n- [Robin](birds/robin.md)\n- [Swift](birds/swift.md)\n'
    case $prompt in
    *"### The attempt before this one"*) ;;
    *) text="$text- [Stork](birds/stork.md)\n" ;;
    esac
    ;;
style)
    path=STYLE.md message='Write down the house style'
    text='# House style\n\nOne line a bird, no exclamation marks.\n'
    ;;
proofread)
    path=PROOF.md message='Check every link of the index'
    text='# Proof\n\nEvery link of the index leads somewhere.\n'
    ;;
release)
    path=RELEASE.md message='Write the release notes'
    text='# First edition\n\nThree birds, proofread.\n'
    ;;
esac

echo "writing $path"
mkdir -p "$(dirname "$path")"
printf '%b' "$text" > "$path"
sleep 0.4
git add -- "$path"
git commit --quiet -m "$message"
echo "committed: $message"

# Both ways to report.
case $RALPH_TASK_ID in
heron | index | release) echo done > "$RALPH_TASK_DIR/DONE" ;;
*) "$1" task-complete "$RALPH_TASK_ID" ;;
esac
