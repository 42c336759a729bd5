// An MPI that prints on the standard output when it starts, as some of its transports do. It is loaded before the real one.

#include <mpi.h>

#include <cstdio>

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided)
{
    std::puts("tcp_iface.c: an error that is none");
    std::fflush(stdout);
    return PMPI_Init_thread(argc, argv, required, provided);
}
