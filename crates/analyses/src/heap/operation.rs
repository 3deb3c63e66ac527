//! The functions that allocate and free blocks of the heap, and what each does.

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Its result is a block.
    Allocate(Size),
    /// Its result says whether there is one, whose address it has left where its first argument points.
    AllocateStored(Size),
    /// The block of the first argument goes, and its result is another one, perhaps at the same place.
    Reallocate(Size),
    /// The block of the first argument goes.
    Free,
}

/// How large a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// As an argument says.
    Argument(usize),
    /// So many elements of so many bytes.
    Product(usize, usize),
}

/// All functions, by their symbols.
const FUNCTIONS: &[(&str, Operation)] = {
    use Operation::*;
    use Size::*;
    &[
        ("malloc", Allocate(Argument(0))),
        ("calloc", Allocate(Product(0, 1))),
        ("realloc", Reallocate(Argument(1))),
        ("reallocarray", Reallocate(Product(1, 2))),
        ("aligned_alloc", Allocate(Argument(1))),
        ("memalign", Allocate(Argument(1))),
        ("posix_memalign", AllocateStored(Argument(2))),
        ("valloc", Allocate(Argument(0))),
        ("pvalloc", Allocate(Argument(0))),
        ("free", Free),
        ("cfree", Free),
        // `operator new` and `operator new[]`: plain, without exceptions, aligned, both. Most work by
        // the functions above; allocators that take the place of those of C have their own.
        ("_Znwm", Allocate(Argument(0))),
        ("_Znam", Allocate(Argument(0))),
        ("_ZnwmRKSt9nothrow_t", Allocate(Argument(0))),
        ("_ZnamRKSt9nothrow_t", Allocate(Argument(0))),
        ("_ZnwmSt11align_val_t", Allocate(Argument(0))),
        ("_ZnamSt11align_val_t", Allocate(Argument(0))),
        ("_ZnwmSt11align_val_tRKSt9nothrow_t", Allocate(Argument(0))),
        ("_ZnamSt11align_val_tRKSt9nothrow_t", Allocate(Argument(0))),
        // `operator delete` and `operator delete[]`, also with the size.
        ("_ZdlPv", Free),
        ("_ZdaPv", Free),
        ("_ZdlPvm", Free),
        ("_ZdaPvm", Free),
        ("_ZdlPvRKSt9nothrow_t", Free),
        ("_ZdaPvRKSt9nothrow_t", Free),
        ("_ZdlPvSt11align_val_t", Free),
        ("_ZdaPvSt11align_val_t", Free),
        ("_ZdlPvmSt11align_val_t", Free),
        ("_ZdaPvmSt11align_val_t", Free),
        ("_ZdlPvSt11align_val_tRKSt9nothrow_t", Free),
        ("_ZdaPvSt11align_val_tRKSt9nothrow_t", Free),
    ]
};

/// The names of the functions whose calls and returns must be among the events.
pub fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// What the function of a name does.
pub(crate) fn operation_of(name: &str) -> Option<Operation> {
    let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, operation)| *operation)
}

impl Operation {
    /// The block that goes with a call, if one does.
    pub(crate) fn frees(self, arguments: &[u64; 3]) -> Option<u64> {
        match self {
            Operation::Free | Operation::Reallocate(_) => Some(arguments[0]).filter(|it| *it != 0),
            Operation::Allocate(_) | Operation::AllocateStored(_) => None,
        }
    }

    /// How many bytes a call asks for, if it asks for any block.
    pub(crate) fn allocates(self, arguments: &[u64; 3]) -> Option<u64> {
        match self {
            Operation::Allocate(size)
            | Operation::AllocateStored(size)
            | Operation::Reallocate(size) => Some(match size {
                Size::Argument(place) => arguments[place],
                Size::Product(count, bytes) => arguments[count].saturating_mul(arguments[bytes]),
            }),
            Operation::Free => None,
        }
    }

    /// The block that a call has given, from what it has returned and stored.
    pub(crate) fn result(self, value: u64, stored: Option<u64>) -> Option<u64> {
        let address = match self {
            // An `int`: the upper half of the register is anything.
            Operation::AllocateStored(_) => stored.filter(|_| value as u32 == 0)?,
            _ => value,
        };
        Some(address).filter(|it| *it != 0)
    }
}
