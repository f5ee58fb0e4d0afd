#include "client/render_hint.h"

#include "client/session.h"
#include "fmt/format.h"

namespace nerf {

void SayNextRender(const Session& session, std::string_view command, std::string_view views,
                   std::string_view remark) {
  session.SayNext(fmt::format("{} {} --out views{}{}{}", command,
                              views.empty() ? "--orbit 8" : views, remark.empty() ? "" : "   ",
                              remark,
                              views.empty() ? "\n      not photographed from all sides: --camera "
                                              "FOLDER_OF_THE_DATA_SET instead of --orbit 8"
                                            : ""));
}

}  // namespace nerf
