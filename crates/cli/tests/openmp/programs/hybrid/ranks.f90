! The same in Fortran.
program ranks
  use planted
  use mpi
  implicit none
  integer :: rank, i, status, total
  call mpi_init(status)
  call mpi_comm_rank(mpi_comm_world, rank, status)
  call mpi_barrier(mpi_comm_world, status)
  call begin()
  !$omp parallel do schedule(dynamic, 1) num_threads(2)
  do i = 1, 2
    call work(200 + 400 * rank)
  end do
  !$omp end parallel do
  call mpi_allreduce(1, total, 1, mpi_integer, mpi_sum, mpi_comm_world, status)
  call finish()
  call mpi_finalize(status)
end program
