// The header is C++, too.
#include <wirelane.h>

int main() {
    wirelane_error error;
    wirelane_port port{};
    if (wirelane_open("sim:1?count=1", nullptr, &port, &error) != WIRELANE_OK)
        return 1;
    return wirelane_close(port);
}
