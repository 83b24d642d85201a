# wrong return value
.license "GPL"

.section cgroup_skb/egress
.func main
    r0 = 5
    exit                                 ; wrong: 0 to 3 are allowed
