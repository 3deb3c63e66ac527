//! Compressors on two threads: what they make natively and observed is the same, and gives
//! the original back.

use super::{Case, PLAIN};

/// Text with some order in it, half a megabyte.
const TEXT: &str = "awk 'BEGIN { x = 3; for (i = 0; i < 30000; i++) { x = (x * 48271) % 2147483647; \
     printf \"%d the quick %d brown %s\\n\", i, x % 97, x % 3 ? \"fox\" : \"dog\" } }' > text";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "xz_threads",
        prepare: TEXT,
        command: &["xz", "-2", "-T2", "--block-size=200KiB", "-k", "text"],
        inspect: "cksum text.xz; xz -dc text.xz | cmp - text",
        traced: true,
        ..PLAIN
    },
    Case {
        name: "xz_back",
        needs: &["xz"],
        prepare: "awk 'BEGIN { for (i = 0; i < 90000; i++) print i * i }' > text; xz -1 -T2 -k text; mv text before",
        command: &["xz", "-dk", "-T2", "text.xz"],
        inspect: "cmp text before",
        ..PLAIN
    },
    Case {
        name: "pigz",
        prepare: TEXT,
        command: &["pigz", "-p", "2", "-k", "-n", "-b", "128", "text"],
        inspect: "cksum text.gz; gzip -dc text.gz | cmp - text",
        traced: true,
        ..PLAIN
    },
    Case {
        name: "zstd_threads",
        prepare: TEXT,
        command: &["zstd", "-q", "-9", "-T2", "-k", "text"],
        inspect: "cksum text.zst; zstd -dcq text.zst | cmp - text",
        traced: true,
        ..PLAIN
    },
    Case {
        name: "gzip",
        prepare: TEXT,
        command: &["gzip", "-9", "-n", "-k", "text"],
        inspect: "cksum text.gz; gzip -dc text.gz | cmp - text",
        traced: true,
        ..PLAIN
    },
    Case {
        name: "bzip2",
        prepare: TEXT,
        command: &["bzip2", "-k", "text"],
        inspect: "cksum text.bz2; bzip2 -dc text.bz2 | cmp - text",
        ..PLAIN
    },
];
