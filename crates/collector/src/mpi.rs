//! MPI, through its profiling interface: every call that may wait for other processes.
//!
//! Arguments are words, whatever they mean, so that one library serves every
//! implementation. Only the number of this process is asked for, once.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::description;
use unspool_preload::clock;
use unspool_preload::symbols;

use crate::caller::return_address;
use crate::runtime_function::call_real;
use crate::{arena, process, thread};

/// A function of MPI.
#[derive(Debug)]
struct MpiFunction {
    name: &'static CStr,
    profiled_name: &'static CStr,
    address: AtomicPtr<c_void>,
    described: AtomicU64,
}

impl MpiFunction {
    const fn new(name: &'static CStr, profiled_name: &'static CStr) -> MpiFunction {
        MpiFunction {
            name,
            profiled_name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            described: AtomicU64::new(0),
        }
    }

    fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let Some(found) = symbols::next(self.profiled_name).or_else(|| symbols::next(self.name))
        else {
            eprintln!("unspool: no MPI library has {:?}", self.profiled_name);
            std::process::abort();
        };
        self.address.store(found, Ordering::Relaxed);
        found
    }

    /// The number of its name in the file.
    fn number(&'static self) -> u64 {
        let number = std::ptr::from_ref(self) as u64;
        let process = u64::from(std::process::id());
        if self.described.swap(process, Ordering::Relaxed) != process {
            arena::describe(description::NAME, &[number], self.name.to_bytes());
        }
        number
    }
}

/// Enters an MPI call; says whether it is one of the program's, not one within another.
fn enter(function: &'static MpiFunction, address: u64) -> bool {
    match thread::current() {
        Some(thread) if !thread.is_in(ConstructKind::Mpi) => {
            let now = clock::now();
            thread.enter(ConstructKind::Mpi, address, function.number(), now);
            true
        }
        _ => false,
    }
}

fn leave(entered: bool) {
    if entered && let Some(thread) = thread::current() {
        thread.leave_through(ConstructKind::Mpi, clock::now());
    }
}

/// Asks for this process's number, once MPI has started.
fn note_rank() {
    // Open MPI's is the address of a variable, of which the program may have its own copy:
    // the first that the search order finds is the one that is used.
    let variable = symbols::first(c"ompi_mpi_comm_world");
    // MPICH's handle for it is part of its binary interface.
    let world = variable.map_or(0x4400_0000, |variable| variable as usize);
    let ask = |name: &CStr| -> Option<c_int> {
        let function = symbols::next(name)?;
        let mut answer: c_int = -1;
        type Ask = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
        // SAFETY: both functions take a communicator and where to put a number, and MPI has
        // started.
        let status =
            unsafe { std::mem::transmute::<*mut c_void, Ask>(function)(world, &raw mut answer) };
        (status == 0 && answer >= 0).then_some(answer)
    };
    if let (Some(rank), Some(ranks)) = (ask(c"PMPI_Comm_rank"), ask(c"PMPI_Comm_size")) {
        process::note_rank(rank as u64, ranks as u64);
    }
}

macro_rules! calls {
    ($($name:ident $text:literal $profiled:literal
       $fortran:ident $fortran_text:literal $fortran_profiled:literal
       ($($argument:ident),*);)*) => {$(
        calls! { @one $name $text $profiled ($($argument),*) }
        // In Fortran, the status is one more argument.
        calls! { @one $fortran $fortran_text $fortran_profiled
            ($($argument,)* status) }
    )*};
    (@one $(#[$start:ident])? $name:ident $text:literal $profiled:literal
        ($($argument:ident),*)) => {
        // SAFETY: the name is MPI's, which lets tools define it and call the profiled name.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            static FUNCTION: MpiFunction = MpiFunction::new($text, $profiled);
            let entered = enter(&FUNCTION, return_address!());
            let result = call_real!(FUNCTION $(, $argument)*);
            leave(entered);
            $(calls!(@$start);)?
            result
        }
    };
    (@start) => { note_rank() };
}

calls! {
    MPI_Finalize c"MPI_Finalize" c"PMPI_Finalize"
        mpi_finalize_ c"mpi_finalize_" c"pmpi_finalize_" ();
    MPI_Send c"MPI_Send" c"PMPI_Send" mpi_send_ c"mpi_send_" c"pmpi_send_" (a, b, c, d, e, f);
    MPI_Ssend c"MPI_Ssend" c"PMPI_Ssend"
        mpi_ssend_ c"mpi_ssend_" c"pmpi_ssend_" (a, b, c, d, e, f);
    MPI_Recv c"MPI_Recv" c"PMPI_Recv"
        mpi_recv_ c"mpi_recv_" c"pmpi_recv_" (a, b, c, d, e, f, g);
    MPI_Sendrecv c"MPI_Sendrecv" c"PMPI_Sendrecv"
        mpi_sendrecv_ c"mpi_sendrecv_" c"pmpi_sendrecv_" (a, b, c, d, e, f, g, h, i, j, k, l);
    MPI_Isend c"MPI_Isend" c"PMPI_Isend"
        mpi_isend_ c"mpi_isend_" c"pmpi_isend_" (a, b, c, d, e, f, g);
    MPI_Irecv c"MPI_Irecv" c"PMPI_Irecv"
        mpi_irecv_ c"mpi_irecv_" c"pmpi_irecv_" (a, b, c, d, e, f, g);
    MPI_Probe c"MPI_Probe" c"PMPI_Probe" mpi_probe_ c"mpi_probe_" c"pmpi_probe_" (a, b, c, d);
    MPI_Wait c"MPI_Wait" c"PMPI_Wait" mpi_wait_ c"mpi_wait_" c"pmpi_wait_" (a, b);
    MPI_Waitall c"MPI_Waitall" c"PMPI_Waitall"
        mpi_waitall_ c"mpi_waitall_" c"pmpi_waitall_" (a, b, c);
    MPI_Waitany c"MPI_Waitany" c"PMPI_Waitany"
        mpi_waitany_ c"mpi_waitany_" c"pmpi_waitany_" (a, b, c, d);
    MPI_Waitsome c"MPI_Waitsome" c"PMPI_Waitsome"
        mpi_waitsome_ c"mpi_waitsome_" c"pmpi_waitsome_" (a, b, c, d, e);
    MPI_Barrier c"MPI_Barrier" c"PMPI_Barrier"
        mpi_barrier_ c"mpi_barrier_" c"pmpi_barrier_" (a);
    MPI_Bcast c"MPI_Bcast" c"PMPI_Bcast" mpi_bcast_ c"mpi_bcast_" c"pmpi_bcast_" (a, b, c, d, e);
    MPI_Reduce c"MPI_Reduce" c"PMPI_Reduce"
        mpi_reduce_ c"mpi_reduce_" c"pmpi_reduce_" (a, b, c, d, e, f, g);
    MPI_Allreduce c"MPI_Allreduce" c"PMPI_Allreduce"
        mpi_allreduce_ c"mpi_allreduce_" c"pmpi_allreduce_" (a, b, c, d, e, f);
    MPI_Scan c"MPI_Scan" c"PMPI_Scan" mpi_scan_ c"mpi_scan_" c"pmpi_scan_" (a, b, c, d, e, f);
    MPI_Gather c"MPI_Gather" c"PMPI_Gather"
        mpi_gather_ c"mpi_gather_" c"pmpi_gather_" (a, b, c, d, e, f, g, h);
    MPI_Gatherv c"MPI_Gatherv" c"PMPI_Gatherv"
        mpi_gatherv_ c"mpi_gatherv_" c"pmpi_gatherv_" (a, b, c, d, e, f, g, h, i);
    MPI_Scatter c"MPI_Scatter" c"PMPI_Scatter"
        mpi_scatter_ c"mpi_scatter_" c"pmpi_scatter_" (a, b, c, d, e, f, g, h);
    MPI_Scatterv c"MPI_Scatterv" c"PMPI_Scatterv"
        mpi_scatterv_ c"mpi_scatterv_" c"pmpi_scatterv_" (a, b, c, d, e, f, g, h, i);
    MPI_Allgather c"MPI_Allgather" c"PMPI_Allgather"
        mpi_allgather_ c"mpi_allgather_" c"pmpi_allgather_" (a, b, c, d, e, f, g);
    MPI_Allgatherv c"MPI_Allgatherv" c"PMPI_Allgatherv"
        mpi_allgatherv_ c"mpi_allgatherv_" c"pmpi_allgatherv_" (a, b, c, d, e, f, g, h);
    MPI_Alltoall c"MPI_Alltoall" c"PMPI_Alltoall"
        mpi_alltoall_ c"mpi_alltoall_" c"pmpi_alltoall_" (a, b, c, d, e, f, g);
    MPI_Alltoallv c"MPI_Alltoallv" c"PMPI_Alltoallv"
        mpi_alltoallv_ c"mpi_alltoallv_" c"pmpi_alltoallv_" (a, b, c, d, e, f, g, h, i);
}

// These differ in Fortran's arguments.
calls! { @one #[start] MPI_Init c"MPI_Init" c"PMPI_Init" (a, b) }
calls! { @one #[start] mpi_init_ c"mpi_init_" c"pmpi_init_" (a) }
calls! { @one #[start] MPI_Init_thread c"MPI_Init_thread" c"PMPI_Init_thread" (a, b, c, d) }
calls! { @one #[start] mpi_init_thread_ c"mpi_init_thread_" c"pmpi_init_thread_" (a, b, c) }
