//! What clean calls of the tracer's code are for, and the number that says it.

use unspool_code_cache::exit::CleanCall;
use unspool_code_cache::gates::CheckNumber;

/// Where a place at which values are taken stands in the table of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueSite(u32);

impl ValueSite {
    pub(crate) fn at(place: usize) -> ValueSite {
        ValueSite(place as u32)
    }

    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}

/// What translated code asks of the tracer in the middle of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TracerRequest {
    /// To show others how far the thread is.
    Poll,
    /// To look after a check that fails, or the end of a chunk.
    Check(CheckNumber),
    /// To take values.
    Values(ValueSite),
}

/// How many requests of another kind there are between two of one.
const KINDS: u32 = 3;

impl TracerRequest {
    /// The clean call that makes it.
    pub(crate) fn call(self) -> CleanCall {
        let (kind, place) = match self {
            TracerRequest::Poll => (0, 0),
            TracerRequest::Check(number) => (1, number.place()),
            TracerRequest::Values(site) => (2, site.place()),
        };
        CleanCall::new(place as u32 * KINDS + kind)
    }

    /// What a clean call asks.
    pub(crate) fn of(call: CleanCall) -> TracerRequest {
        let place = (call.number() / KINDS) as usize;
        match call.number() % KINDS {
            0 => TracerRequest::Poll,
            1 => TracerRequest::Check(CheckNumber::at(place)),
            _ => TracerRequest::Values(ValueSite::at(place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_from_its_call() {
        let requests = [
            TracerRequest::Poll,
            TracerRequest::Check(CheckNumber::at(0)),
            TracerRequest::Values(ValueSite::at(0)),
            TracerRequest::Check(CheckNumber::at(70_000)),
            TracerRequest::Values(ValueSite::at(70_000)),
        ];
        for (at, &request) in requests.iter().enumerate() {
            assert_eq!(TracerRequest::of(request.call()), request);
            for other in &requests[at + 1..] {
                assert_ne!(request.call(), other.call());
            }
        }
    }
}
