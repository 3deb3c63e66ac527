//! Round trips of the codec, and what it makes of damage.

use proptest::prelude::*;

use super::*;

const ALL: Portion = Portion {
    wanted_words: usize::MAX,
    hold_back: false,
};

/// Packs and unpacks words, and checks that every record comes back.
fn check_round_trip(words: &[u64]) -> usize {
    let mut encoder = ChunkEncoder::new(Some(1));
    // A second chunk shows that nothing of the first is left over.
    let mut packed = Vec::new();
    let encoded = encoder.encode(words, ALL, &mut packed);
    let mut again = Vec::new();
    assert_eq!(encoder.encode(words, ALL, &mut again), encoded);
    assert_eq!(packed, again);
    let mut chunk = decode_chunk(&packed, encoded.words as u64).expect("undamaged");
    let mut decoded = Vec::new();
    let headers: Vec<u64> = chunk.distinct().collect();
    let encoded_headers: Vec<u64> = encoder.distinct().map(|(header, _)| header).collect();
    assert_eq!(headers, encoded_headers);
    while let Some((index, payload)) = chunk.next_record() {
        decoded.push(headers[index]);
        decoded.extend_from_slice(payload);
    }
    assert_eq!(decoded, words[..encoded.words]);
    assert_eq!(encoder.records().count(), encoded.records);
    encoded.words
}

fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        0x7fff_0000_0000..0x7fff_0000_1000_u64,
        0x5555_0000_0000..0x5555_0001_0000_u64,
        0..16_u64,
        any::<u64>(),
    ]
}

/// A record: few different paths, some special records.
fn any_record() -> impl Strategy<Value = Vec<u64>> {
    let path = (0..6_u64, 0..5_usize).prop_map(|(path, words)| {
        (
            (path * path * path * 70_000) | ((words as u64) << 24),
            words,
        )
    });
    let special = (1..9_u64, 0..3_u64, 0..200_usize).prop_map(|(kind, argument, words)| {
        (
            1 << 63 | kind << 56 | (words as u64) << 40 | argument,
            words,
        )
    });
    prop_oneof![8 => path, 1 => special].prop_flat_map(|(header, words)| {
        proptest::collection::vec(any_word(), words).prop_map(move |mut payload| {
            payload.insert(0, header);
            payload
        })
    })
}

proptest! {
    #[test]
    fn records_come_back(records in proptest::collection::vec(any_record(), 0..300)) {
        let words = records.concat();
        prop_assert_eq!(check_round_trip(&words), words.len());
    }

    #[test]
    fn half_a_record_is_left(records in proptest::collection::vec(any_record(), 0..20), cut in 1..4_u64) {
        let mut words = records.concat();
        let whole = words.len();
        words.push(4 << 24 | 5);
        words.extend(0..cut);
        prop_assert_eq!(check_round_trip(&words), whole);
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, words in 0..1_000_u64) {
        let _ = decode_chunk(&bytes, words);
    }

    #[test]
    fn damage_is_survived(
        records in proptest::collection::vec(any_record(), 1..60),
        at: prop::sample::Index,
        flip in 1..=255_u8,
    ) {
        let words = records.concat();
        let mut packed = Vec::new();
        // Without compression, so that the damage reaches the codec.
        let encoded = ChunkEncoder::new(None).encode(&words, ALL, &mut packed);
        let at = at.index(packed.len());
        packed[at] ^= flip;
        if let Ok(mut chunk) = decode_chunk(&packed, encoded.words as u64) {
            while chunk.next_record().is_some() {}
        }
    }
}

#[test]
fn a_regular_loop_takes_almost_nothing() {
    let words: Vec<u64> = (0..20_000)
        .flat_map(|i| {
            [
                2 << 24 | 7,
                0x7f00_0000_0000 + i * 8,
                0x7e00_0000_0000 + i * 64,
            ]
        })
        .collect();
    let mut packed = Vec::new();
    ChunkEncoder::new(Some(1)).encode(&words, ALL, &mut packed);
    assert!(packed.len() < 200, "{} bytes", packed.len());
}

#[test]
fn the_number_of_words_must_be_right() {
    let words = [2 << 24 | 7, 1, 2, 2 << 24 | 7, 3, 4];
    let mut packed = Vec::new();
    ChunkEncoder::new(Some(1)).encode(&words, ALL, &mut packed);
    assert!(decode_chunk(&packed, 6).is_ok());
    for wrong in [0, 1, 5, 7, 8, u64::MAX] {
        assert!(decode_chunk(&packed, wrong).is_err(), "{wrong} words");
    }
}

#[test]
fn stamps_wait_for_their_record() {
    let stamp = 1 << 63 | 2 << 56 | 1 << 40;
    let words = [7, stamp, 50, 7, stamp, 51, stamp, 52];
    let mut encoder = ChunkEncoder::new(None);
    for (hold_back, wanted_words, expected, held_back) in [
        (true, 100, 4, 4),
        (false, 100, 8, 0),
        (true, 1, 1, 0),
        (true, 2, 4, 0),
        (false, 2, 4, 0),
    ] {
        let encoded = encoder.encode(
            &words,
            Portion {
                wanted_words,
                hold_back,
            },
            &mut Vec::new(),
        );
        assert_eq!((encoded.words, encoded.held_back), (expected, held_back));
    }
}
