//! Where words lie, and what becomes of them where memory is unmapped or moved.

use unspool_kernel::lock::Mutex;

use super::memory::GUARD;
use super::{ADDRESS_BITS, MOST_BITS, Shadow};

impl Shadow {
    fn load(self, address: u64) -> u64 {
        // SAFETY: it is a word of the shadow's mapping.
        unsafe { super::read(self.place(address), u64::from(self.word)) }
    }

    fn store(self, address: u64, value: u8) {
        // SAFETY: as above, of which this is the lowest byte.
        unsafe { (self.place(address) as *mut u8).write_volatile(value) };
    }
}

/// All sizes of words, with granules from one byte to 64.
fn each(check: impl Fn(Shadow)) {
    // There is room for few at once.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    for word in [1, 2, 4, 8] {
        for granule in [1, 2, 4, 8, 16, 32, 64] {
            let shadow = Shadow::new(word, granule).unwrap();
            check(shadow);
            // SAFETY: nobody else uses this mapping.
            unsafe {
                let room = (shadow.base as *mut libc::c_void).sub(GUARD);
                libc::munmap(room, shadow.size() as usize + 2 * GUARD);
            }
            super::ALL
                .lock()
                .retain(|other| other.base() != shadow.base());
        }
    }
}

const PLACES: [u64; 4] = [
    0x40_0000,
    0x5555_5555_5000,
    0x7fff_f7ff_f000,
    0xc0_0000_0000,
];

#[test]
fn each_granule_has_a_word_of_its_own() {
    each(|shadow| {
        let granule = shadow.granule();
        for (number, &place) in PLACES.iter().enumerate() {
            shadow.store(place, number as u8 + 1);
            shadow.store(place + granule, number as u8 + 101);
        }
        for (number, &place) in PLACES.iter().enumerate() {
            assert_eq!(shadow.load(place + granule - 1), number as u64 + 1);
            assert_eq!(shadow.load(place + granule), number as u64 + 101);
            assert_eq!(shadow.load(place + 2 * granule), 0);
            assert_eq!(shadow.load(place - 1), 0);
        }
        assert!(shadow.size() <= 1 << MOST_BITS);
        let span = Shadow::span(shadow.word, granule);
        assert_eq!(shadow.place(PLACES[0]), shadow.place(PLACES[0] + span));
        assert!(span == 1 << ADDRESS_BITS || shadow.size() == 1 << MOST_BITS);
    });
}

#[test]
fn what_is_unmapped_has_zeros_and_what_lies_beside_it_does_not() {
    each(|shadow| {
        let place = PLACES[1];
        let pages = place..place + (64 << 12);
        for at in [pages.start - 1, pages.start, pages.end - 1, pages.end] {
            shadow.store(at, 7);
        }
        shadow.clear(&pages);
        let left = [pages.start - 1, pages.start, pages.end - 1, pages.end];
        assert_eq!(left.map(|at| shadow.load(at)), [7, 0, 0, 7]);
    });
}

#[test]
fn words_go_with_memory_that_moves() {
    each(|shadow| {
        let from = PLACES[1]..PLACES[1] + (3 << 12);
        let to = PLACES[2] - (1 << 30);
        shadow.store(from.start, 1);
        shadow.store(from.end - 1, 2);
        shadow.store(from.end, 3);
        shadow.store(to + (1 << 12), 4);
        shadow.move_words(&from, to);
        let there = [to, to + (1 << 12), to + (3 << 12) - 1, to + (3 << 12)];
        assert_eq!(there.map(|at| shadow.load(at)), [1, 0, 2, 0]);
        let here = [from.start, from.end - 1, from.end];
        assert_eq!(here.map(|at| shadow.load(at)), [0, 0, 3]);
    });
}
