import numpy

numbers = numpy.random.RandomState(5)
a = numbers.rand(300, 300)
b = a @ a.T + numpy.eye(300)
print(numpy.allclose(numpy.linalg.inv(b) @ b, numpy.eye(300)))
print(numpy.linalg.eigvalsh(b)[:2].round(6))
print(numpy.fft.ifft(numpy.fft.fft(numpy.arange(1024))).real.sum().round(6))
print(numpy.sort(numbers.randint(0, 1000, 100000))[::20000])
