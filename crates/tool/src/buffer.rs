//! Buffers of entries that inserted code fills without a call.

use std::marker::PhantomData;
use std::panic::Location;

use unspool_instrument::{Action, Argument, BufferId, BufferKind, Consumption, Field, Receiver};

use crate::argument::Address;
use crate::batch::{self, Batch};
use crate::call::assert_captures_nothing;
use crate::tool::Tool;

/// A buffer of each thread, to which inserted code appends entries ([`Point::append`]).
///
/// A function of the tool gets them in batches, in the thread that made them and in the order
/// in which it did: when the buffer is full, when the thread ends, before the process is
/// forked or becomes another program, and, if that is wanted, at each system call, or where a
/// function says so ([`Buffer::flush`]). Nothing is lost and nothing comes twice. Functions of the
/// tool append, too ([`Buffer::append`]). What is to be done beside the program is for a thread of its
/// own, which gets the batches whole ([`Buffer::with_consumer`]).
///
/// The first buffer that a tool makes is the fastest one.
///
/// ```
/// use unspool_tool::{Address, Buffer, Superblock, Tool, effective_address};
///
/// struct Sum {
///     addresses: Buffer<Sum, Address>,
/// }
///
/// impl Sum {
///     fn accessed(&self, sum: &mut u64, batch: &[Address]) {
///         *sum = batch.iter().fold(*sum, |sum, at| sum.wrapping_add(at.0));
///     }
/// }
///
/// impl Tool for Sum {
///     type Thread = u64;
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         for instruction in superblock.instructions() {
///             for address in instruction.memory_operands().iter().filter_map(effective_address) {
///                 instruction.before().append(self.addresses, (address,));
///             }
///         }
///     }
/// }
///
/// let tool = Sum { addresses: Buffer::new(8192, Sum::accessed) };
/// ```
///
/// [`Point::append`]: crate::Point::append
pub struct Buffer<T, E> {
    id: BufferId,
    types: PhantomData<fn(&T, &[E])>,
}

impl<T, E> Clone for Buffer<T, E> {
    fn clone(&self) -> Buffer<T, E> {
        *self
    }
}

impl<T, E> Copy for Buffer<T, E> {}

impl<T: Tool, E: Entry> Buffer<T, E> {
    /// A buffer with room for so many entries in each thread, and somewhat more: whole pages.
    /// A batch may be somewhat smaller: where the program's path leads back and the flags are dead, a
    /// buffer that is nearly full is handed over by a call. Only what comes by no such path costs a
    /// signal, some microseconds. So a few hundred kilobytes are a good size: what fits into the
    /// processor's second cache need not come back from memory. `deliver` gets the batches: a function
    /// item, or a closure that captures nothing.
    ///
    /// # Panics
    /// If the program runs already, if there are eight, or if there is to be no room.
    #[must_use]
    #[track_caller]
    pub fn new<F>(entries: usize, _deliver: F) -> Buffer<T, E>
    where
        F: Fn(&T, &mut T::Thread, &[E]) + Copy + 'static,
    {
        const { assert_captures_nothing::<F>() };
        Buffer::received(entries, Receiver::Function(deliver::<T, E, F>))
    }

    /// A buffer whose batches belong to a thread of its own, which calls `consume` with each of them:
    /// a function item, or a closure that captures nothing. Entries are not copied: the program's
    /// thread goes on in other memory.
    ///
    /// At most `most_filled` batches are handed over and not dropped at any time: a thread of the
    /// program that would hand over another one waits. So the buffer takes the memory of that many
    /// batches, and of one for each thread of the program, never more.
    ///
    /// The batches of a thread come in order, and all of them: before a fork those that the
    /// forking thread has made until then (no consumer runs while a process is copied), and before
    /// [`Tool::end`] those of all threads. A forked child has a consumer of its own, which gets what is
    /// made there. Where the system starts no thread, those of the program call `consume`, one at a
    /// time.
    ///
    /// ```
    /// use unspool_tool::lock::Mutex;
    /// use unspool_tool::{Address, Batch, Buffer, Superblock, Tool, effective_address};
    ///
    /// /// Keeps all addresses, in little room.
    /// struct Compressed {
    ///     addresses: Buffer<Compressed, Address>,
    ///     differences: Mutex<Vec<u8>>,
    /// }
    ///
    /// impl Compressed {
    ///     fn compress(&self, batch: Batch<Address>) {
    ///         let mut differences = self.differences.lock();
    ///         for pair in batch.windows(2) {
    ///             let mut rest = pair[1].0.wrapping_sub(pair[0].0);
    ///             while rest >= 128 {
    ///                 differences.push(rest as u8 | 128);
    ///                 rest >>= 7;
    ///             }
    ///             differences.push(rest as u8);
    ///         }
    ///     }
    /// }
    ///
    /// impl Tool for Compressed {
    ///     type Thread = ();
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             for address in instruction.memory_operands().iter().filter_map(effective_address) {
    ///                 instruction.before().append(self.addresses, (address,));
    ///             }
    ///         }
    ///     }
    /// }
    ///
    /// let tool = Compressed {
    ///     addresses: Buffer::with_consumer(8192, 16, Compressed::compress),
    ///     differences: Mutex::new(Vec::new()),
    /// };
    /// ```
    ///
    /// A function of the tool must not append to such a buffer, or flush it, with a lock in hand
    /// (one of [`lock`](crate::lock); it panics) nor with anything else that the consumer waits for.
    ///
    /// # Panics
    /// As [`Buffer::new`], and if there may be no batch.
    #[must_use]
    #[track_caller]
    pub fn with_consumer<F>(entries: usize, most_filled: usize, _consume: F) -> Buffer<T, E>
    where
        F: Fn(&T, Batch<E>) + Copy + 'static,
    {
        const { assert_captures_nothing::<F>() };
        let receiver = Receiver::Consumer {
            consume: batch::consume::<T, E, F>,
            most_filled,
        };
        Buffer::received(entries, receiver)
    }

    #[track_caller]
    fn received(entries: usize, receiver: Receiver) -> Buffer<T, E> {
        const { assert!(align_of::<E>() <= 8, "an entry's alignment is 8 at most") };
        let id = BufferId::new(BufferKind {
            entries,
            entry_size: size_of::<E>(),
            receiver,
            at_system_calls: false,
            made_at: Location::caller(),
        });
        Buffer {
            id,
            types: PhantomData,
        }
    }

    /// What the consumer has had to do so far, in this process, and how often threads of the program
    /// have waited for it; nothing if there is none.
    #[must_use]
    pub fn consumption(self) -> Consumption {
        self.id.consumption()
    }

    /// Has a batch end before each system call of its thread, so that the tool sees entries and
    /// system calls in order.
    #[must_use]
    #[track_caller]
    pub fn at_system_calls(self) -> Buffer<T, E> {
        self.id.deliver_at_system_calls();
        self
    }

    pub(crate) fn id(self) -> BufferId {
        self.id
    }

    /// Appends an entry in a function of the tool, which one of the program's threads runs:
    /// one that inserted code calls, or one that is told of something. `state` is what the function
    /// has got as the thread's.
    ///
    /// Entries that inserted code appends ([`Point::append`]) and those of functions stand in the
    /// buffer in the order in which the thread made them. What is appended before an instruction
    /// counts from when the instruction has completed: a function that is called before the same
    /// instruction has its entries in front of it, and they are there if the instruction faults, too.
    ///
    /// ```
    /// use unspool_tool::{
    ///     Address, Buffer, Superblock, SystemCall, Tool, effective_address,
    /// };
    ///
    /// /// What is accessed between system calls: the calls are in the list as addresses that no
    /// /// program has.
    /// struct Between {
    ///     accessed: Buffer<Between, Address>,
    /// }
    ///
    /// const SYSTEM_CALL: u64 = 1 << 63;
    ///
    /// impl Tool for Between {
    ///     type Thread = Vec<Address>;
    ///
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             for address in instruction.memory_operands().iter().filter_map(effective_address) {
    ///                 instruction.before().append(self.accessed, (address,));
    ///             }
    ///         }
    ///     }
    ///
    ///     fn system_call_entry(&self, list: &mut Vec<Address>, call: &mut SystemCall) {
    ///         self.accessed.append(list, Address(SYSTEM_CALL | call.number));
    ///     }
    /// }
    ///
    /// let tool = Between {
    ///     accessed: Buffer::new(8192, |_, list: &mut Vec<Address>, batch: &[Address]| {
    ///         list.extend(batch);
    ///     }),
    /// };
    /// ```
    ///
    /// # Panics
    /// In a function that gets the entries of a buffer, of this one or another; in
    /// [`Tool::instrument`]; and where the calling thread has no buffers: in
    /// [`Tool::thread_end`], [`Tool::end`], and threads of [`spawn`](crate::spawn).
    ///
    /// [`Point::append`]: crate::Point::append
    #[track_caller]
    pub fn append(self, state: &mut T::Thread, entry: E) {
        let entry = (&raw const entry).cast();
        // SAFETY: it is an entry of this buffer, and the state is of the tool's type, which nobody
        // else uses meanwhile.
        unsafe { self.id.append(std::ptr::from_mut(state).cast(), entry) }
    }

    /// Has the tool get the entries that the thread has made so far, now: in a function of the tool,
    /// as [`append`](Buffer::append). What is appended before the instruction before which the
    /// function is called is not among them.
    ///
    /// ```
    /// # use unspool_tool::{Annotation, Buffer, Superblock, Synchronisation, Tool};
    /// # struct Races { accesses: Buffer<Races, u64> }
    /// # impl Tool for Races {
    /// #     type Thread = u64;
    /// #     const SYNCHRONISATION: bool = true;
    /// #     fn instrument(&self, _: &Superblock<Self>) {}
    /// fn synchronisation(&self, clock: &mut u64, event: &Synchronisation) {
    ///     // What came before has the time from before.
    ///     self.accesses.flush(clock);
    ///     *clock += 1;
    /// }
    /// # }
    /// ```
    ///
    /// # Panics
    /// As [`append`](Buffer::append).
    #[track_caller]
    pub fn flush(self, state: &mut T::Thread) {
        // SAFETY: as above.
        unsafe { self.id.flush(std::ptr::from_mut(state).cast()) }
    }

    /// What has inserted code append an entry of these fields.
    pub(crate) fn insertion(self, fields: Vec<Field>) -> Action {
        Action::Append {
            buffer: self.id,
            size: size_of::<E>() as u16,
            fields,
        }
    }
}

/// The fields of an entry, with their values.
pub(crate) fn fields<E: Entry>(values: Vec<Argument>) -> Vec<Field> {
    let fields = E::FIELDS.iter().zip(values).map(|(place, value)| {
        assert!(
            !place.is_truth || value.is_truth(),
            "{value:?} may be something else than true and false"
        );
        let bytes = match value {
            Argument::WideVector { bytes, .. } => bytes,
            _ => place.size.min(8),
        };
        assert_eq!(
            bytes, place.size,
            "{value:?} has another size than its field"
        );
        Field {
            value,
            offset: place.offset,
            size: place.size,
        }
    });
    fields.collect()
}

extern "C" fn deliver<T, E, F>(state: *mut (), entries: *const u8, count: usize)
where
    T: Tool,
    E: Entry,
    F: Fn(&T, &mut T::Thread, &[E]) + Copy + 'static,
{
    // SAFETY: `Buffer::new` was given a value of it.
    let function = unsafe { crate::call::function::<F>() };
    // SAFETY: inserted code has stored every field of so many entries (see `Entry`), which
    // nobody changes until this returns.
    let batch = unsafe { std::slice::from_raw_parts(entries.cast::<E>(), count) };
    // SAFETY: only a tool of this type, and code that it inserted, appends to a buffer of this type,
    // with a state that nobody else uses until this returns.
    let (tool, state) = unsafe {
        let tool = crate::call::tool::<T>();
        (tool, &mut *state.cast::<T::Thread>())
    };
    function(tool, state, batch);
}

/// What can be an entry of a [`Buffer`]: an integer, a `bool`, an [`Address`] or the bytes of a vector
/// register ([`vector_register`](crate::vector_register)), a tuple of up
/// to six of them, or a struct that [`entry!`](crate::entry) declares.
///
/// # Safety
/// `FIELDS` must be all the fields of the type, each of the type that `Fields` has in its
/// place.
pub unsafe trait Entry: Copy + 'static {
    /// The types of its fields, in a tuple.
    type Fields;
    /// Where they lie.
    const FIELDS: &'static [EntryField];
}

/// Where a field of an entry lies.
#[derive(Debug, Clone, Copy)]
pub struct EntryField {
    pub(crate) offset: u16,
    pub(crate) size: u8,
    pub(crate) is_truth: bool,
}

impl EntryField {
    /// A field of a type, at an offset in its entry.
    #[must_use]
    pub const fn of<V: FieldValue>(offset: usize) -> EntryField {
        assert!(offset < 1 << 15, "an entry is too large");
        EntryField {
            offset: offset as u16,
            size: size_of::<V>() as u8,
            is_truth: V::IS_TRUTH,
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What can be a field of an entry: its bytes are a word's lowest ones, or those of a vector register.
pub trait FieldValue: Copy + 'static + sealed::Sealed {
    /// Whether 0 and 1 are its only values.
    const IS_TRUTH: bool;
}

macro_rules! fields {
    ($($word:ty),*) => {$(
        impl sealed::Sealed for $word {}

        impl FieldValue for $word {
            const IS_TRUTH: bool = false;
        }
    )*};
}

fields!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, Address);
fields!([u8; 16], [u8; 32], [u8; 64]);

impl sealed::Sealed for bool {}

impl FieldValue for bool {
    const IS_TRUTH: bool = true;
}

// SAFETY: it is its only field.
unsafe impl<V: FieldValue> Entry for V {
    type Fields = (V,);
    const FIELDS: &'static [EntryField] = &[EntryField::of::<V>(0)];
}

macro_rules! tuples {
    ($($field:ident $number:tt),*) => {
        // SAFETY: these are the fields.
        unsafe impl<$($field: FieldValue),*> Entry for ($($field,)*) {
            type Fields = ($($field,)*);
            const FIELDS: &'static [EntryField] =
                &[$(EntryField::of::<$field>(std::mem::offset_of!(Self, $number))),*];
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Declares a struct that can be an entry of a [`Buffer`].
///
/// ```
/// unspool_tool::entry! {
///     /// An access to memory.
///     #[derive(Debug)]
///     pub struct Access {
///         pub address: unspool_tool::Address,
///         pub size: u32,
///         pub is_write: bool,
///     }
/// }
/// ```
#[macro_export]
macro_rules! entry {
    (
        $(#[$about:meta])*
        $sight:vis struct $name:ident {
            $($(#[$about_field:meta])* $field_sight:vis $field:ident: $type:ty),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        $sight struct $name {
            $($(#[$about_field])* $field_sight $field: $type,)+
        }

        // SAFETY: these are the fields.
        unsafe impl $crate::Entry for $name {
            type Fields = ($($type,)+);
            const FIELDS: &'static [$crate::EntryField] = &[
                $($crate::EntryField::of::<$type>(::core::mem::offset_of!($name, $field))),+
            ];
        }
    };
}
