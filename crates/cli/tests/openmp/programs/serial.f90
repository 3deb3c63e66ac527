! A serial part before a parallel region.
! planted: serial_part 0.9
! productive: 1.1
! diagnosis: are outside parallel regions, where one thread works and 3 wait
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  if (planting) call work(300)
  !$omp parallel do num_threads(4)
  do i = 0, 3
    call work(merge(200, 275, planting))
  end do
  !$omp end parallel do
  call finish()
end program
