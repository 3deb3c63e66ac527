//! The calling context tree as it is written: each frame and each path once.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use unspool_profile_record::{Frame, Node, Record, StepCertainty, Writer};

/// Where a frame is: an image or none, and an address there.
pub(crate) type Place = (Option<u32>, u64);

/// What has been written.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    frames: FxHashMap<Place, u32>,
    nodes: FxHashMap<(Option<u32>, u32, StepCertainty), u32>,
}

impl Tree {
    /// The number of a path: a frame under the path of its caller.
    pub(crate) fn node<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        parent: Option<u32>,
        place: Place,
        certainty: StepCertainty,
    ) -> io::Result<u32> {
        let frame = self.frame(writer, place)?;
        let next = u32::try_from(self.nodes.len()).map_err(io::Error::other)?;
        let number = *self.nodes.entry((parent, frame, certainty)).or_insert(next);
        if number == next {
            writer.write(&Record::Node(Node {
                number,
                parent,
                frame,
                certainty,
            }))?;
        }
        Ok(number)
    }

    fn frame<W: Write>(&mut self, writer: &mut Writer<W>, place: Place) -> io::Result<u32> {
        let next = u32::try_from(self.frames.len()).map_err(io::Error::other)?;
        let number = *self.frames.entry(place).or_insert(next);
        if number == next {
            let (image, address) = place;
            writer.write(&Record::Frame(Frame {
                number,
                image,
                address,
            }))?;
        }
        Ok(number)
    }
}
