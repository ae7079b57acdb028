# Every link of the committed pages leads somewhere.
git ls-files '*.md' | {
    good=0
    while read -r page; do
        for link in $(sed -n 's/.*](\([^)]*\)).*/\1/p' "$page"); do
            [ -e "$link" ] || { echo "error: $page: $link leads nowhere"; good=1; }
        done
    done
    exit $good
}
