/* Reads a byte from /dev/zero through an io_uring, N times: reads_by_ring N
 *
 * Says "ring 0", or the error number when the kernel gives it none. It reads when SIGUSR1 comes, says
 * "done", and ends at the next SIGUSR1. Each read is one io_uring_enter(2), and none is a read(2). */

#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	struct io_uring ring;
	struct io_uring_cqe *done;
	sigset_t order;
	char byte;
	int which;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&order);
	sigaddset(&order, SIGUSR1);
	sigprocmask(SIG_BLOCK, &order, NULL);
	int zero = open("/dev/zero", O_RDONLY);
	int error = -io_uring_queue_init(1, &ring, 0);
	printf("ring %d\n", error);
	if (error || zero < 0 || argc != 2)
		return 1;
	sigwait(&order, &which);
	for (int n = atoi(argv[1]); n > 0; n--) {
		struct io_uring_sqe *read = io_uring_get_sqe(&ring);
		io_uring_prep_read(read, zero, &byte, 1, 0);
		if (io_uring_submit_and_wait(&ring, 1) != 1 || io_uring_peek_cqe(&ring, &done) || done->res != 1)
			return 2;
		io_uring_cqe_seen(&ring, done);
	}
	puts("done");
	sigwait(&order, &which);
	return 0;
}
