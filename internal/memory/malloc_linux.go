//go:build linux && cgo

package memory

/*
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

// There is one arena for so many processors.
#define PROCESSORS_PER_ARENA 4

// limit_arenas lets malloc have few arenas, unless the environment variable
// MALLOC_ARENA_MAX says otherwise. The store's cache allocates blocks on one thread and
// frees them on another; with glibc's eight arenas per processor it ends up
// occupying several times the memory that it uses. It runs before the first thread
// is made, since glibc looks at the number once.
__attribute__((constructor)) static void limit_arenas(void) {
#ifdef M_ARENA_MAX
	if (getenv("MALLOC_ARENA_MAX") == NULL) {
		long arenas = sysconf(_SC_NPROCESSORS_ONLN) / PROCESSORS_PER_ARENA;
		mallopt(M_ARENA_MAX, arenas > 1 ? arenas : 1);
	}
#endif
}
*/
import "C"
