# A browser without a window shows a page of ours in a profile of its own and takes a picture,
# whose size and checksum are printed. As an ordinary user even where root measures: a browser's
# sandbox is for them. Arguments: the browser, and the page.
browser=$1 page=$2
folder=$(mktemp -d /tmp/browser.XXXXXX) || exit
trap 'rm -rf "$folder"' EXIT
cp "$page" "$folder/page.html"
chmod 755 "$folder"
chmod 644 "$folder/page.html"
mkdir "$folder/home"
if [ "$(id -u)" = 0 ]; then
  chown 65534:65534 "$folder/home"
  # Translations are their user's own.
  kept=$UNSPOOL_PERSISTENT_CACHE
  case $kept in
    /*) mkdir -p "$kept" && chown 65534:65534 "$kept" && chmod a+rx "$kept/.." || exit ;;
  esac
  as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
picture=$folder/home/picture.png address=file://$folder/page.html
export HOME="$folder/home" XDG_RUNTIME_DIR="$folder/home"
case $browser in
  *chromium*) set -- --headless --disable-gpu --user-data-dir="$HOME/profile" --screenshot="$picture" ;;
  *firefox*)
    mkdir "$HOME/profile"
    [ -z "$as_user" ] || chown 65534:65534 "$HOME/profile"
    set -- --headless --no-remote --profile "$HOME/profile" --screenshot "$picture" ;;
esac
cd "$HOME" && $as_user "$browser" "$@" "$address" >&2 || exit
cksum <"$picture"
