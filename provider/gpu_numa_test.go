//go:build (sim || gputest) && linux && !nogpu

package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// placed tells a process that it has been started again where -card.placement wants it.
const placed = "PROVIDER_TEST_PLACED"

// Memory policies of set_mempolicy(2).
const (
	policyBind       = 2
	policyInterleave = 3
)

// place starts this process again with its threads and memory where they are wanted, unless it has been already: only then does it hold for
// every thread.
func place(b *testing.B, where string) {
	b.Helper()
	if where == "" || os.Getenv(placed) != "" {
		return
	}
	runtime.LockOSThread() // whose policy and processors the new process inherits
	var err error
	if where == "interleave" {
		err = setPolicy(policyInterleave, onlineNodes())
	} else {
		err = bindTo(where)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), placed+"=1"))
	}
	b.Fatalf("-card.placement=%s: %v", where, err)
}

// bindTo binds this thread and its memory to a node.
func bindTo(node string) error {
	n, err := strconv.Atoi(node)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join("/sys/devices/system/node", "node"+node, "cpulist"))
	if err != nil {
		return err
	}
	var cpus unix.CPUSet
	for _, cpu := range numbers(string(text)) {
		cpus.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		return fmt.Errorf("sched_setaffinity: %w", err)
	}
	return setPolicy(policyBind, []int{n})
}

func setPolicy(policy int, nodes []int) error {
	var mask uint64
	for _, n := range nodes {
		mask |= 1 << n
	}
	if _, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, uintptr(policy), uintptr(unsafe.Pointer(&mask)), 64); errno != 0 {
		return fmt.Errorf("set_mempolicy: %w", errno)
	}
	return nil
}

// onlineNodes returns the machine's NUMA nodes.
func onlineNodes() []int {
	text, err := os.ReadFile("/sys/devices/system/node/online")
	if err != nil {
		return nil
	}
	return numbers(string(text))
}

// numbers reads a list such as 0-3,8.
func numbers(list string) (all []int) {
	for _, part := range strings.Split(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			continue
		}
		for n := from; n <= to; n++ {
			all = append(all, n)
		}
	}
	return all
}

// processors describes what this process may run on.
func processors() string {
	return fmt.Sprintf("%d processors, NUMA nodes %v", runtime.GOMAXPROCS(0), onlineNodes())
}

// pagesByNode says where memory lies: of pages taken at equal distances, how many are on each node (move_pages(2)).
func pagesByNode(memory []byte) string {
	const most = 1024
	page := os.Getpagesize()
	n := min(max(len(memory)/page, 1), most)
	addresses, where := make([]uintptr, n), make([]int32, n)
	base := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for i := range addresses {
		addresses[i] = (base + uintptr(len(memory)/n*i)) &^ uintptr(page-1)
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(n), uintptr(unsafe.Pointer(&addresses[0])), 0, uintptr(unsafe.Pointer(&where[0])), 0)
	if errno != 0 {
		return fmt.Sprintf("not known: move_pages: %v", errno)
	}
	on := make(map[string]int)
	for _, node := range where {
		name := fmt.Sprint(node)
		if node < 0 {
			name = syscall.Errno(-node).Error()
		}
		on[name]++
	}
	return fmt.Sprintf("%v, of %d pages", on, n)
}

func TestNumbers(t *testing.T) {
	for list, want := range map[string]string{"0": "[0]", "0-1\n": "[0 1]", "0-2,5,7-8": "[0 1 2 5 7 8]", "": "[]", "x": "[]"} {
		if got := fmt.Sprint(numbers(list)); got != want {
			t.Errorf("%q is %s, want %s", list, got, want)
		}
	}
}

func TestPagesByNode(t *testing.T) {
	memory := make([]byte, 1<<20)
	for i := range memory {
		memory[i] = 1
	}
	if got := pagesByNode(memory); got == "" || strings.HasPrefix(got, "map[]") {
		t.Errorf("a megabyte is on %q", got)
	} else {
		t.Log(got)
	}
}
