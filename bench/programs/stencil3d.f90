! A seven-point heat equation in a cube: Fortran OpenMP, two threads.
! Argument: number of time steps.
program stencil3d
   implicit none
   integer, parameter :: side = 96
   integer, parameter :: wide = selected_real_kind(15)
   real(wide), allocatable :: now(:, :, :), next(:, :, :)
   character(len=16) :: argument
   integer :: steps, step, i, j, k

   steps = 10
   if (command_argument_count() > 0) then
      call get_command_argument(1, argument)
      read (argument, *) steps
   end if

   allocate (now(side, side, side), next(side, side, side))
   do k = 1, side
      do j = 1, side
         do i = 1, side
            now(i, j, k) = mod(i*7 + j*11 + k*13, 97)/97.0_wide
         end do
      end do
   end do
   next = now

   do step = 1, steps
!$omp parallel do schedule(static) num_threads(2) private(i, j)
      do k = 2, side - 1
         do j = 2, side - 1
            do i = 2, side - 1
               next(i, j, k) = now(i, j, k) + 0.1_wide*( &
                  now(i - 1, j, k) + now(i + 1, j, k) + now(i, j - 1, k) &
                  + now(i, j + 1, k) + now(i, j, k - 1) + now(i, j, k + 1) &
                  - 6.0_wide*now(i, j, k))
            end do
         end do
      end do
!$omp end parallel do
!$omp parallel do schedule(static) num_threads(2)
      do k = 2, side - 1
         now(2:side - 1, 2:side - 1, k) = next(2:side - 1, 2:side - 1, k)
      end do
!$omp end parallel do
   end do

   print '(a, i0, a, es22.14)', 'stencil3d ', steps, ' ', sum(now*now)
end program stencil3d
