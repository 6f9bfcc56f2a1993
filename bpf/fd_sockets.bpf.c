/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Reads every socket that a process has a descriptor of, of all protocols but TCP, whose tables are walked instead
 * (tcp.bpf.c).
 */
#define WITH_SOCKETS
#include "descriptors.h"

char license_[] SEC("license") = "GPL";
