//! A race with the names of what it is about.

use unspool_analyses::races::{Race, RacingAccess};
use unspool_report::{CodePlace, DataPlace, Places};

use super::string_functions::may_read_beyond;

/// A race with names.
#[derive(Debug)]
pub(super) struct DescribedRace {
    pub(super) race: Race,
    /// Where the first access is made, and the second.
    pub(super) places: [CodePlace; 2],
    pub(super) data: DataPlace,
}

impl DescribedRace {
    /// Whether what one of them reads may lie behind the end of a string.
    pub(super) fn may_be_beyond_a_string(&self) -> bool {
        let accesses = [&self.race.first, &self.race.second];
        let mut sides = accesses.into_iter().zip(&self.places);
        sides.any(|(access, place)| !access.writes && may_read_beyond(place))
    }

    pub(super) fn new(race: &Race, places: &mut Places) -> DescribedRace {
        let mut place = |access: &RacingAccess| match access.pc {
            Some(pc) => places.code(pc),
            None => CodePlace::default(),
        };
        DescribedRace {
            places: [place(&race.first), place(&race.second)],
            data: places.data(race.address),
            race: race.clone(),
        }
    }
}
