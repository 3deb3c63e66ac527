// Go: goroutines over channels, a concurrent collector, stacks that move, preemption by
// signals, faults that become panics, and a child process.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}
func (n *node) count() int {
	if n.left == nil {
		return 1
	}
	return 1 + n.left.count() + n.right.count()
}

func deep(n int) int {
	var pad [64]byte
	pad[n%64] = 1
	if n == 0 {
		return 0
	}
	return deep(n-1) + int(pad[n%64])
}

func main() {
	runtime.GOMAXPROCS(2)
	// 200 goroutines through channels.
	jobs, results := make(chan int), make(chan int)
	var wait sync.WaitGroup
	for i := 0; i < 200; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for job := range jobs {
				results <- job * job
			}
		}()
	}
	go func() {
		for i := 0; i < 1000; i++ {
			jobs <- i
		}
		close(jobs)
		wait.Wait()
		close(results)
	}()
	sum := 0
	for result := range results {
		sum += result
	}
	fmt.Println("channels", sum)

	// The collector beside mutators.
	debug.SetGCPercent(20)
	var nodes int64
	for i := 0; i < 4; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for j := 0; j < 4; j++ {
				atomic.AddInt64(&nodes, int64(tree(9).count()))
			}
		}()
	}
	wait.Wait()
	fmt.Println("nodes", nodes)

	// Preemption of loops that call nothing: signals.
	var stop int32
	spun := make(chan bool)
	for i := 0; i < 3; i++ {
		go func() {
			x := 0
			for atomic.LoadInt32(&stop) == 0 {
				x++
			}
			spun <- x > 0
		}()
	}
	time.Sleep(30 * time.Millisecond)
	runtime.GC()
	atomic.StoreInt32(&stop, 1)
	fmt.Println("spun", <-spun, <-spun, <-spun)

	// Stacks that move.
	fmt.Println("deep", deep(20000))

	// A fault becomes a panic.
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		var p *node
		fmt.Println(p.left)
	}()
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		zero := len(os.Args) - 1
		fmt.Println(1 / zero)
	}()
	// Signals of the program's own.
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println("signal", <-c)

	// Its own call path.
	_, file, _, ok := runtime.Caller(0)
	fmt.Println("caller", file[strings.LastIndex(file, "/")+1:], ok)

	out, err := exec.Command("/bin/echo", "child").Output()
	fmt.Print("exec ", string(out), err, "\n")
	runtime.LockOSThread()
	os.Exit(7)
}
