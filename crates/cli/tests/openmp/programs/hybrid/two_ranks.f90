! The same in Fortran.
program two_ranks
  use iso_c_binding
  use mpi
  implicit none
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface
  integer :: rank, i, status, total
  integer(c_int) :: slept
  call mpi_init(status)
  call mpi_comm_rank(mpi_comm_world, rank, status)
  call mpi_barrier(mpi_comm_world, status)
  !$omp parallel do schedule(dynamic, 1) num_threads(2) private(slept)
  do i = 1, 2
    slept = usleep(int(200000 + 400000 * rank, c_int))
  end do
  !$omp end parallel do
  call mpi_allreduce(1, total, 1, mpi_integer, mpi_sum, mpi_comm_world, status)
  call mpi_finalize(status)
end program
