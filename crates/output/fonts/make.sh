#!/bin/sh
# Makes the letters of pictures from Debian's package fonts-dejavu-core 2.37-6, with fonttools 4.68.0 of PyPI:
#   apt-get install fonts-dejavu-core && pip install fonttools==4.68.0 && sh make.sh
# Hints and layout tables are left out: text is drawn large enough, and without ligatures and kerning.
set -eu
cd "$(dirname "$0")"
from=${1:-/usr/share/fonts/truetype/dejavu}
latin="U+0020-007E,U+00A0-017F,U+0218-021B,U+03BC,U+2013,U+2014,U+2018-201E,U+2026,U+2190-2193,U+2212,U+2248,U+2264,U+2265,U+20AC"
# Titles and names of functions: what is missing in the bold font is drawn in the regular one.
ascii="U+0020-007E,U+00A0,U+00B5,U+00B7,U+00D7,U+2013,U+2026,U+2192"
make() {
    python3 outlines.py "$from/$1.ttf" "$1.outlines" "$2"
}
make DejaVuSans "$latin"
make DejaVuSans-Bold "$ascii"
make DejaVuSansMono "$ascii"
