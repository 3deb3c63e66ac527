//! Images and their routines, as a tool sees them.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use unspool_instrument as instrument;
use unspool_instrument::functions::{HookCall, HookValue, Hooks, MOST_ARGUMENTS};
use unspool_instrument::images;

use crate::argument::{Analysis, Arguments};
use crate::function::{self, Replacement, Signature, Wrapper};
use crate::moment::{AtEntry, AtExit, AtUnwind, RoutineMoment};
use crate::tool::Tool;

/// The code of one file in memory, or other code. What there is to know of it,
/// [`images::Image`] tells.
#[derive(Clone, Copy)]
pub struct Image<'a, T> {
    inner: &'a Arc<images::Image>,
    tool: PhantomData<fn(&T)>,
}

impl<'a, T> Image<'a, T> {
    pub(crate) fn new(inner: &'a Arc<images::Image>) -> Image<'a, T> {
        Image {
            inner,
            tool: PhantomData,
        }
    }

    /// All its routines, by address, each address once.
    pub fn routines(&self) -> impl Iterator<Item = Routine<'a, T>> + use<'a, T> {
        let mut last = None;
        let all = self.inner.routines().filter(move |routine| {
            let address = Some(routine.address());
            std::mem::replace(&mut last, address) != address
        });
        all.map(Routine::new)
    }

    /// The routines of a name: a symbol, or a name as the source has it, with or without the
    /// types of its arguments. None if the image has none; several if there are copies.
    #[must_use]
    pub fn routines_named(&self, name: &str) -> Vec<Routine<'a, T>> {
        let found = self.inner.routines_named(name);
        found.into_iter().map(Routine::new).collect()
    }

    /// The routine that begins at an address, whether it has a name or not: in a stripped program,
    /// for instance, whose disassembly shows where it begins. `None` if there is no code of the
    /// image's. An address of the file is one of the program when the [`bias`](images::Image::bias)
    /// is added to it.
    ///
    /// ```
    /// # use unspool_tool::{FunctionArgument, Image, ImageKind, Superblock, Tool, say};
    /// struct Levels;
    ///
    /// impl Levels {
    ///     fn is_set(&self, _: &mut (), level: i32) {
    ///         say(&format!("level {level}"));
    ///     }
    /// }
    ///
    /// impl Tool for Levels {
    ///     type Thread = ();
    ///     fn instrument(&self, _: &Superblock<Self>) {}
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         if image.kind() == ImageKind::Program {
    ///             let start = image.bias().unwrap_or(0) + 0x1139;
    ///             let routine = image.routine_starting_at(start).expect("it is that version");
    ///             let level = FunctionArgument::<i32, 0>::new();
    ///             routine.entry().call(Levels::is_set, (level,));
    ///         }
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn routine_starting_at(&self, address: u64) -> Option<UnnamedRoutine<T>> {
        let is_code = self.code().iter().any(|range| range.contains(&address));
        is_code.then_some(UnnamedRoutine {
            start: Start {
                address,
                is_resolver: false,
            },
            tool: PhantomData,
        })
    }

    /// The image, to be kept.
    #[must_use]
    pub fn to_arc(&self) -> Arc<images::Image> {
        Arc::clone(self.inner)
    }
}

impl<T> Deref for Image<'_, T> {
    type Target = images::Image;

    fn deref(&self) -> &images::Image {
        self.inner
    }
}

impl<T: Tool> Image<'_, T> {
    /// Puts a function of the tool in the place of all routines of a name: it is called whenever
    /// they are, and what it returns is returned. Returns how many there are.
    ///
    /// The types are those of the program's function, and the tool's must fit them:
    ///
    /// ```
    /// # use unspool_tool::{Address, Image, Superblock, Tool};
    /// type Close = extern "C" fn(i32) -> i32;
    ///
    /// struct NeverClose;
    ///
    /// impl NeverClose {
    ///     fn close(&self, count: &mut u64, file: i32) -> i32 {
    ///         *count += 1;
    ///         0
    ///     }
    /// }
    ///
    /// impl Tool for NeverClose {
    ///     type Thread = u64;
    ///     fn instrument(&self, _: &Superblock<Self>) {}
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         image.replace::<Close>("close", NeverClose::close);
    ///     }
    /// }
    /// ```
    ///
    /// With other types they do not:
    ///
    /// ```compile_fail,E0631
    /// # use unspool_tool::{Address, Image, Superblock, Tool};
    /// type Close = extern "C" fn(i64) -> i32;
    /// # struct NeverClose;
    /// # impl NeverClose {
    /// #     fn close(&self, count: &mut u64, file: i32) -> i32 {
    /// #         0
    /// #     }
    /// # }
    /// # impl Tool for NeverClose {
    /// #     type Thread = u64;
    /// #     fn instrument(&self, _: &Superblock<Self>) {}
    /// #     fn image_load(&self, image: &Image<Self>) {
    ///         image.replace::<Close>("close", NeverClose::close);
    /// #     }
    /// # }
    /// ```
    pub fn replace<S: Signature>(&self, name: &str, function: impl Replacement<T, S>) -> usize {
        self.hook_named(name, &function::replace(function))
    }

    /// Puts a function of the tool around all routines of a name: it is called whenever they
    /// are, can call the original, and what it returns is returned. Returns how many there are.
    ///
    /// ```
    /// # use unspool_tool::{Address, Image, Original, Superblock, Tool};
    /// type Malloc = extern "C" fn(usize) -> Address;
    ///
    /// struct MallocBytes;
    ///
    /// impl MallocBytes {
    ///     fn malloc(&self, original: &mut Original<Self, Malloc>, size: usize) -> Address {
    ///         let block = original.call(size);
    ///         *original.state() += size;
    ///         block
    ///     }
    /// }
    ///
    /// impl Tool for MallocBytes {
    ///     type Thread = usize;
    ///     fn instrument(&self, _: &Superblock<Self>) {}
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         image.wrap::<Malloc>("malloc", MallocBytes::malloc);
    ///     }
    /// }
    /// ```
    ///
    /// The original runs on the program's own stack, as if it had been called by its caller. If
    /// it is left by an exception or by `longjmp`, the tool's function is left where it is: its
    /// values are dropped, and it does not go on.
    ///
    /// A call of such a function takes some sixty nanoseconds, and two hundred if the tool's function
    /// allocates, computes with floating-point numbers, or does anything else that leaves it open what
    /// it changes. What changes neither arguments nor results is cheaper at
    /// [`entry`](Routine::entry) and [`exit`](Routine::exit).
    pub fn wrap<S: Signature>(&self, name: &str, function: impl Wrapper<T, S>) -> usize {
        self.hook_named(name, &function::wrap(function))
    }

    fn hook_named(&self, name: &str, hooks: &Hooks) -> usize {
        let found = self.routines_named(name);
        for routine in &found {
            routine.start().hook(hooks.clone());
        }
        found.len()
    }
}

/// A routine: a piece of code with a name. What there is to know of it, [`images::Routine`]
/// tells.
pub struct Routine<'a, T> {
    inner: images::Routine<'a>,
    tool: PhantomData<fn(&T)>,
}

impl<T> Clone for Routine<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Routine<'_, T> {}

impl<'a, T> Deref for Routine<'a, T> {
    type Target = images::Routine<'a>;

    fn deref(&self) -> &images::Routine<'a> {
        &self.inner
    }
}

impl<'a, T> Routine<'a, T> {
    fn new(inner: images::Routine<'a>) -> Routine<'a, T> {
        Routine {
            inner,
            tool: PhantomData,
        }
    }

    fn start(&self) -> Start {
        Start {
            address: self.address(),
            is_resolver: self.inner.is_resolver(),
        }
    }

    /// Where it is entered: by a call, or by a jump from another routine. If anything is to be
    /// called where it ends, a jump from itself to its beginning is no entry.
    #[must_use]
    pub fn entry(&self) -> RoutinePoint<T, AtEntry> {
        self.start().moment()
    }

    /// Where it returns to its caller: by an instruction of its own, or with a routine to which
    /// it jumped.
    #[must_use]
    pub fn exit(&self) -> RoutinePoint<T, AtExit> {
        self.start().moment()
    }

    /// Where it is left without returning: by an exception or by `longjmp`.
    #[must_use]
    pub fn unwind(&self) -> RoutinePoint<T, AtUnwind> {
        self.start().moment()
    }
}

/// Where a routine begins.
#[derive(Debug, Clone, Copy)]
struct Start {
    address: u64,
    /// Whether it only chooses the code that does the named work.
    is_resolver: bool,
}

impl Start {
    /// What a symbol of an indirect function stands for is what it chooses.
    fn hook(self, hooks: Hooks) {
        match self.is_resolver {
            true => instrument::hook_result(self.address, hooks),
            false => instrument::hook(self.address, hooks),
        }
    }

    fn moment<T, M: RoutineMoment>(self) -> RoutinePoint<T, M> {
        RoutinePoint {
            start: self,
            moment: PhantomData,
        }
    }
}

/// A routine of which only is known where it begins: see [`Image::routine_starting_at`]. It must be
/// called, or jumped to at the end of another one, as compilers do it.
pub struct UnnamedRoutine<T> {
    start: Start,
    tool: PhantomData<fn(&T)>,
}

impl<T: Tool> UnnamedRoutine<T> {
    /// As [`Routine::entry`].
    #[must_use]
    pub fn entry(&self) -> RoutinePoint<T, AtEntry> {
        self.start.moment()
    }

    /// As [`Routine::exit`].
    #[must_use]
    pub fn exit(&self) -> RoutinePoint<T, AtExit> {
        self.start.moment()
    }

    /// As [`Routine::unwind`].
    #[must_use]
    pub fn unwind(&self) -> RoutinePoint<T, AtUnwind> {
        self.start.moment()
    }

    /// As [`Image::replace`].
    pub fn replace<S: Signature>(&self, function: impl Replacement<T, S>) {
        self.start.hook(function::replace(function));
    }

    /// As [`Image::wrap`].
    pub fn wrap<S: Signature>(&self, function: impl Wrapper<T, S>) {
        self.start.hook(function::wrap(function));
    }
}

/// A moment at which something can be called.
pub struct RoutinePoint<T, M> {
    start: Start,
    moment: PhantomData<fn(&T, M)>,
}

impl<T: Tool, M: RoutineMoment> RoutinePoint<T, M> {
    /// Calls a function each time, with the tool, what the tool keeps for the thread, and the
    /// values of the arguments, of which there are six at most. What the routine was called with
    /// is known where it ends, too.
    ///
    /// ```
    /// # use unspool_tool::{Address, FunctionArgument, Image, ReturnValue, Superblock, Tool, say};
    /// struct Reads;
    ///
    /// impl Reads {
    ///     fn called(&self, calls: &mut u64, file: i32) {
    ///         *calls += 1;
    ///     }
    ///
    ///     fn returned(&self, calls: &mut u64, wanted: usize, got: isize) {
    ///         say(&format!("read {calls}: {got} of {wanted}"));
    ///     }
    /// }
    ///
    /// impl Tool for Reads {
    ///     type Thread = u64;
    ///     fn instrument(&self, _: &Superblock<Self>) {}
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         for read in image.routines_named("read") {
    ///             let file = FunctionArgument::<i32, 0>::new();
    ///             read.entry().call(Reads::called, (file,));
    ///             let size = FunctionArgument::<usize, 2>::new();
    ///             read.exit().call(Reads::returned, (size, ReturnValue::<isize>::new()));
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// What is not known at a moment does not compile there, as what is returned is not known at
    /// the entry:
    ///
    /// ```compile_fail,E0277
    /// # use unspool_tool::{Address, FunctionArgument, Image, ReturnValue, Superblock, Tool, say};
    /// # struct Reads;
    /// # impl Reads {
    /// #     fn returned(&self, wanted: &mut usize, got: isize) {}
    /// # }
    /// # impl Tool for Reads {
    /// #     type Thread = usize;
    /// #     fn instrument(&self, _: &Superblock<Self>) {}
    /// #     fn image_load(&self, image: &Image<Self>) {
    /// #         for read in image.routines_named("read") {
    ///             read.entry().call(Reads::returned, (ReturnValue::<isize>::new(),));
    /// #         }
    /// #     }
    /// # }
    /// ```
    pub fn call<F, A>(&self, function: F, arguments: A)
    where
        A: Arguments<M>,
        F: Analysis<T, T::Thread, A::Values>,
    {
        const {
            assert!(
                A::COUNT <= MOST_ARGUMENTS,
                "a call at a routine has six arguments at most"
            );
        }
        let sources = arguments.sources(());
        let is_float = |it: &HookValue| matches!(it, HookValue::Float(_) | HookValue::FloatResult);
        let mut hooks = Hooks {
            has_floats: sources.iter().any(is_float),
            ..Hooks::default()
        };
        M::list(&mut hooks).push(HookCall {
            function: crate::call::words_entry::<T, F, A, M>(function),
            inserted: crate::call::inserted_routine_entry::<T, F, A, M>(function),
            arguments: std::array::from_fn(|number| sources.get(number).copied()),
        });
        self.start.hook(hooks);
    }
}
