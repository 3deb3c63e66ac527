#!/bin/sh
# Starts eight programs, which do next to nothing. Arguments: none.
/bin/true
/bin/ls / >/dev/null
/bin/cat /etc/passwd >/dev/null
/usr/bin/id -u
/bin/date +%Y >/dev/null
/usr/bin/wc -l /etc/passwd
/usr/bin/sort /etc/passwd >/dev/null
/usr/bin/head -1 /etc/passwd
